"""`llmprof show` and `llmprof runs`: rendered and fitted on a terminal, raw when piped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from llmprof.cli.terminal_tables import MOST_FOLDED, report_text, table_text
from llmprof.core.report.registry import tables
from llmprof.core.report.table import Cell, Column, Figure, Table, format_cell
from llmprof.core.store.journal import replay
from llmprof.core.store.pack import open_view
from llmprof.core.store.run import RunStore
from tests.builders import journals
from tests.builders.tracked_rows import write_loop
from tests.tui.terminal import Terminal, environment

RECORDING = Path(__file__).parents[1] / "fixtures" / "switches-h100.llmprof"


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_every_table_fits_and_no_figure_is_cut(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    view = open_view(RECORDING)
    text = report_text(view, width)
    assert max(map(len, text.splitlines())) <= width
    for table in tables(view):
        shown = table_text(table, width)
        for row in table.rows[:MOST_FOLDED]:
            for column, cell in zip(table.columns, row, strict=True):
                if column.numeric:
                    assert format_cell(cell) in shown, (table.key, cell)
    assert "<" not in text.replace("<=", "")
    assert "\\" not in text


def test_columns_that_do_not_fit_follow_after_the_names_of_the_rows() -> None:
    columns = (Column("Model", numeric=False), *(Column(f"figure {at}", "ms") for at in range(12)))
    row: tuple[Cell, ...] = ("small", *(Figure(1000.0 + at, 0.1) for at in range(12)))
    lines = table_text(Table("t", "", columns, (row,)), 50).splitlines()
    assert sum(line.startswith("small") for line in lines) > 1
    assert max(map(len, lines)) <= 50


def test_a_heading_keeps_percent_signs_with_what_they_are_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    columns = (Column("Part", numeric=False), Column("A 95 %", "± %"))
    lines = table_text(Table("t", "", columns, (("forward", Figure(3.0, 1.0)),)), 60).splitlines()
    assert [line.split("  ")[-1].strip() for line in lines[:3]] == ["A", "95 %", "(± %)"]


def test_a_loop_has_its_name_as_title(tmp_path: Path) -> None:
    text = report_text(replay(write_loop(tmp_path).journal), 100)
    assert "my-run, a training loop" in text.splitlines()[0]


LISTS = [
    ("show", str(RECORDING)),
    ("show", str(RECORDING), "--section", "stability"),
    ("runs",),
    ("compare", str(RECORDING), str(RECORDING)),
    ("predict", "--model-size", "tiny", "--card", "24GiB"),
    ("presets",),
    ("presets", "--cards"),
    ("experiments",),
]


@pytest.mark.parametrize("words", LISTS, ids=lambda words: "-".join(words[0:1] + words[2:]))
def test_a_terminal_gets_tables_and_a_pipe_gets_markdown(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    journals.finished(RunStore(tmp_path / "runs"))
    env = environment(tmp_path, PAGER="cat")
    with Terminal(tmp_path, *words, size=(100, 60), env=env) as terminal:
        assert terminal.end() == 0
        assert "| ---" not in terminal.raw.decode()
        assert "<details>" not in terminal.raw.decode()
        assert "───" in terminal.raw.decode()
    piped = subprocess.run(
        [sys.executable, "-m", "llmprof", *words], env=env, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert "| ---" in piped.stdout
    assert "\x1b" not in piped.stdout


def test_a_long_report_is_paged(tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho paged $(wc -l) lines\n")
    pager.chmod(0o755)
    env = environment(tmp_path, PAGER=str(pager))
    with Terminal(tmp_path, "show", str(RECORDING), size=(100, 30), env=env) as terminal:
        assert terminal.end() == 0
        assert "paged" in terminal.text
