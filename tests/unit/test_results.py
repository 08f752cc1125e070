"""A run's Markdown export: findings, then tables, then what is long behind folds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llmprof.core.document.results import findings_text
from llmprof.core.report.formats import render
from llmprof.core.report.lean import COMMON, lean
from llmprof.core.report.markdown_table import WIDEST, wrapped
from llmprof.core.report.table import Column, Table
from llmprof.core.store.pack import open_view

ROOT = Path(__file__).parents[2]
RECORDINGS = sorted((ROOT / "tests" / "fixtures").glob("*.llmprof")) + sorted(
    (ROOT / "tui").glob("*.llmprof")
)
BEFORE = 915  # lines of the recorded end-to-end run when it was 32 tables one under another


def exported(path: Path) -> str:
    view = open_view(path)
    return render(view, "md", findings_text(view, path))


def test_findings_come_first_then_tables_then_folds() -> None:
    text = exported(ROOT / "tests" / "fixtures" / "switches-h200.llmprof")
    places = [
        text.index(mark) for mark in ("- **Device", "## Findings", "## Switches", "<details>")
    ]
    assert places == sorted(places)
    assert "## " not in text[text.index("<details>") :]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_no_line_outside_the_folds_is_too_long(path: Path) -> None:
    pages = exported(path).split("<details>")[0]
    assert [line for line in pages.splitlines() if len(line) > WIDEST] == []


def test_the_tables_of_an_end_to_end_run_take_half_the_lines() -> None:
    text = exported(ROOT / "tests" / "fixtures" / "end-to-end-h100.llmprof")
    before, found, tables = re.split(r"^## Findings$|^## Summary$", text, flags=re.MULTILINE)
    assert len((before + tables).splitlines()) <= BEFORE / 2
    assert len(found.splitlines()) <= 25


def test_what_says_nothing_goes() -> None:
    columns = (
        Column("Size", numeric=False),
        Column("Batch"),
        Column("Of GPU time", "%"),
        Column("Of GPU-busy", "%"),
        Column("Blank"),
    )
    table = Table("t", "T", columns, (("a", 4, 10, 10, None), ("b", 4, 20, 20, None)), ("Note.",))
    found = lean(table)
    assert [column.header for column in found.columns] == ["Size", "Of GPU time"]
    assert found.notes == (f"{COMMON}Batch 4.", "Note.")
    one = Table("t", "T", columns, table.rows[:1])
    assert [column.header for column in lean(one).columns] == ["Size", "Batch", "Of GPU time"]
    same = Table("t", "T", columns[:2], (("a", 4), ("a", 4)))
    assert lean(same) == same


def test_words_have_no_unit_and_one_has_a_singular() -> None:
    columns = (
        Column("Size", numeric=False),
        Column("Kind", numeric=False),
        Column("95 % interval", "×", numeric=False),
        Column("Compile", "s"),
        Column("n", "processes"),
        Column("Change", "%", numeric=False),
    )
    rows = tuple((size, size, "one process", "eager", 1, "−4 to 2") for size in ("a", "b"))
    assert lean(Table("t", "T", columns, rows)).notes == (
        f"{COMMON}95 % interval one process; Compile eager; n 1 process; Change −4 to 2 %.",
    )


def test_wrapped_lines_begin_no_list() -> None:
    text = wrapped("word " * 40 + "- 1. + 2) " * 40, "  ")
    lines = text.splitlines()
    assert len(lines) > 2
    assert all(len(line) <= WIDEST + 1 for line in lines)
    assert not any(line.strip().startswith(("- ", "+ ", "1. ", "2) ")) for line in lines[1:])
