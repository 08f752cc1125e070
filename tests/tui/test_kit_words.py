"""No number and no word is cut in the middle, on any width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from llmprof.tui.kit.canvas import cut_words
from llmprof.tui.kit.look import UNICODE
from llmprof.tui.kit.table import RowTable
from llmprof.tui.kit.table_cells import TableCell, TableColumn, TableRow
from llmprof.tui.kit.words import common_parts, told_apart, without_parts

T = TypeVar("T")
WORDS = st.lists(st.from_regex(r"[a-z0-9.,±%]{1,12}", fullmatch=True), min_size=1, max_size=8)


@given(WORDS, st.integers(1, 60))
def test_a_text_is_cut_between_words(words: list[str], width: int) -> None:
    text = " ".join(words)
    shown = cut_words(text, width, "…")
    assert cell_len(shown) <= width
    kept = shown.removesuffix("…")
    if " " in kept:  # more than a lone name, which has to be cut somewhere
        assert all(word.startswith(end) for word, end in zip(words, kept.split(), strict=False))
        assert kept.split()[:-1] == words[: len(kept.split()) - 1]
    if kept[:1].isdigit():
        assert kept.rstrip(",:;") in (text, words[0].rstrip(",:;")) or " " in kept


def test_a_long_name_is_cut_where_it_must_be_and_a_number_never() -> None:
    assert cut_words("very stable", 8, "…") == "very…"
    assert cut_words("1234567", 4, "…") == "…"
    assert cut_words("x" * 40, 10, "…") == "x" * 9 + "…"
    assert cut_words("small · train · ctx 128", 16, "…") == "small · train…"


def test_what_labels_share_is_said_once() -> None:
    labels = ["a · ctx 1 · bf16", "a · ctx 2 · bf16"]
    assert common_parts(labels) == ("a", "bf16")
    assert [without_parts(label, ("a", "bf16")) for label in labels] == ["ctx 1", "ctx 2"]
    assert common_parts(labels[:1]) == ()
    assert without_parts("a", ("a",)) == "a"


def rows_of(*texts: Sequence[str]) -> tuple[TableRow, ...]:
    return tuple(TableRow(str(at), tuple(map(TableCell, cells))) for at, cells in enumerate(texts))


@pytest.mark.parametrize("order", [None, (0, False), (1, True), (2, False)])
@pytest.mark.parametrize("width", range(12, 60))
def test_columns_are_left_out_rather_than_cut(width: int, order: tuple[int, bool] | None) -> None:
    columns = (
        TableColumn("Run", 4),
        TableColumn("Precision", 4, priority=2),
        TableColumn("Calls", 3, "right", priority=1),
        TableColumn("Verdict", 4),
    )
    found = RowTable("T", "nothing", id="t")
    found.order = order
    found.columns = columns
    found.rows = rows_of(("attn", "reduced", "1,234", "very stable"), ("b", "bf16", "7", "no"))
    found._arrange()
    layout = found._layout(width)
    words = {word for row in found.rows for cell in row.cells for word in cell.text.split()} | {
        column.title for column in columns
    }
    titles = "".join(text for text, _ in found_titles(found, layout))
    for at, size in layout:
        assert columns[at].title in titles
        for row in found.rows:
            shown = cut_words(row.cells[at].text, size, UNICODE.ellipsis)
            assert set(shown.removesuffix("…").split()) <= words
    left = [at for at in range(len(columns)) if at not in dict(layout)]
    used = 2 + sum(size + 2 for _, size in layout) - 2
    assert all(used + 2 + found._widths[at] > width for at in left)  # none that had room


def found_titles(found: RowTable, layout: list[tuple[int, int]]) -> list[tuple[str, str]]:
    """The titles, drawn without an app."""
    return without_app(found, lambda: found._titles(layout))


def without_app(found: RowTable, draw: Callable[[], T]) -> T:
    type(found).look = property(lambda _: UNICODE)  # type: ignore[assignment,method-assign]
    try:
        return draw()
    finally:
        del type(found).look


def test_names_that_differ_at_their_ends_are_told_apart() -> None:
    names = ["gemm_tile64x64x8_s3", "gemm_tile64x64x8_s4", "short", "gemm_tile64x64x8_s3"]
    assert told_apart(names, 10, "…") == {names[0]: "gem…4x8_s3", names[1]: "gem…4x8_s4"}
    assert told_apart(names[:1], 10, "…") == {}
    wide = told_apart(["模型トランスlarge", "模型トランスsmall"], 11, "…")
    assert len(set(wide.values())) == 2
    assert all(cell_len(text) <= 11 for text in wide.values())


def drawn_lines(found: RowTable, width: int, height: int) -> list[str]:
    found._arrange()
    rows = without_app(found, lambda: found.draw(width, height))
    return ["".join(text for text, _ in row).rstrip() for row in rows]


def test_rows_of_a_table_are_told_apart_and_figures_stay_by_their_names() -> None:
    found = RowTable("T", "nothing", id="t")
    found.columns = (TableColumn("Kernel", 6), TableColumn("ms", 4, "right"))
    names = ("gemm_tile64x64x8_with_stages_3", "gemm_tile64x64x8_with_stages_4")
    found.rows = rows_of(*((name, "1.5") for name in names))
    lines = drawn_lines(found, 32, 6)
    assert [line[2:] for line in lines[2:4]] == [
        "gemm_ti…x8_with_stages_3   1.5",
        "gemm_ti…x8_with_stages_4   1.5",
    ]
    assert drawn_lines(found, 90, 6)[2].endswith("_3   1.5")


@pytest.mark.parametrize(("height", "place"), [(6, "3–6 of 6"), (3, "6 of 6"), (8, "")])
def test_a_table_says_which_of_its_rows_are_in_sight(height: int, place: str) -> None:
    found = RowTable("Runs", "nothing", id="t")
    found.columns = (TableColumn("Run", 4),)
    found.rows = rows_of(*([str(at)] for at in range(6)))
    found.cursor = "5"
    heading = drawn_lines(found, 24, height)[0]
    assert heading.replace("─", "").split(maxsplit=1)[1:] == ([place] if place else [])


@pytest.mark.parametrize(
    ("width", "place"), [(40, "1–2 of 6"), (34, "1–2 of 6"), (32, "6 rows"), (26, "")]
)
def test_the_note_of_a_table_goes_before_its_place(width: int, place: str) -> None:
    found = RowTable("Kernels", "nothing", id="t")
    found.columns = (TableColumn("Kernel", 4),)
    found.rows = rows_of(*([str(at)] for at in range(6)))
    found.note = "30.15 ms a step"
    heading = drawn_lines(found, width, 4)[0].replace("─", "").split(maxsplit=5)
    assert " ".join(heading[:5]) == "Kernels 30.15 ms a step"
    assert " ".join(heading[5:]) == place
