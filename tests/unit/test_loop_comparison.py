"""Two loops side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from llmprof.cli.main import main
from llmprof.core.report.loop_comparison import LoopComparison, render
from llmprof.core.report.table import Cell, Figure
from llmprof.core.store.journal import replay
from tests.builders.tracked_rows import USUAL, write_loop

SLOWER = (("input", 12.0), *USUAL[1:])


def numbers(cells: Sequence[Cell]) -> tuple[float, ...]:
    return tuple(cell.value or 0.0 for cell in cells if isinstance(cell, Figure))


def test_pace_parts_memory_and_loss(tmp_path: Path) -> None:
    runs = write_loop(tmp_path, 100), write_loop(tmp_path, 80, (SLOWER,))
    base, other = (replay(run.journal) for run in runs)
    found = LoopComparison(base, other, "before", "after")
    whole, parts, loss = found.tables
    rows = {row[0]: numbers(row[2:]) for row in whole.rows}
    assert whole.rows[0][:4] == ("Steps", "", 100, 80)
    assert rows["Steps"] == pytest.approx((-20.0,))
    assert rows["Pace"][:2] == pytest.approx((50.0, 1000 / 30), rel=0.01)
    changed = {row[0]: numbers(row[3:4]) for row in parts.rows}
    assert changed["input wait"] == pytest.approx((10.0,), rel=0.01)
    assert changed["backward"] == pytest.approx((0.0,), abs=0.01)
    assert len(loss.rows) == 10  # of the steps that both have
    assert loss.rows[-1][0] == "72–79"
    assert loss.rows[0][3] == Figure(0.0)
    assert "# llmprof: before and after compared" in render(found, "md")
    assert json.loads(render(found, "json"))["tables"][1]["key"] == "loop-parts-compared"
    assert "loops-compared" in render(found, "csv")


def test_one_that_has_not_ended_well_is_said_so(tmp_path: Path) -> None:
    base, other = (
        replay(write_loop(tmp_path / name, 40, done=name == "done").journal)
        for name in ("done", "cut")
    )
    for going, words in ((False, "was interrupted"), (True, "still runs")):
        found = LoopComparison(base, replace(other, going=going), "a", "b")
        said = f"B {words}: its figures are of the steps that it did."
        assert found.tables[0].notes[2:] == (said,)
    assert len(LoopComparison(base, base, "a", "b").tables[0].notes) == 2


def test_forward_and_loss_are_one_part_where_one_loop_has_them_so(tmp_path: Path) -> None:
    told = (("input", 2.0), ("", 5.0), ("loss", 1.0), ("backward", 9.0), ("optimizer", 3.0))
    base, other = (replay(write_loop(tmp_path, 60, (each,)).journal) for each in (told, USUAL))
    (loop,) = base.loops
    apart = replace(loop, started=msgspec.structs.replace(loop.started, model=True))
    parts = LoopComparison(replace(base, loops=(apart,)), other, "a", "b").tables[1]
    rows = {row[0]: numbers(row[1:3]) for row in parts.rows}
    assert rows["forward + loss"] == pytest.approx((6.0, 5.0), rel=0.01)
    assert "loss" not in rows
    assert "took it no time" not in parts.notes[0]


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path))
    names = [str(write_loop(tmp_path / "runs", 30).path) for _ in range(2)]
    assert main(["compare", *names]) == 0
    assert "Parts of a step" in capsys.readouterr().out
    assert main(["compare", *names, "--fail-on", "regression=5%"]) == 2
    assert "nothing is judged" in capsys.readouterr().err
