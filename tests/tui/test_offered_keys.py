"""A key that could only say that it cannot is not offered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from textual.pilot import Pilot

from llmprof.core.events import Outcome
from llmprof.core.store.pack import unpack
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.kit.key_bar import KeyBar
from tests.builders import journals
from tests.builders.journals import live_run
from tests.tui.apps import make_app, open_runs, table
from tests.tui.frames import contains, settle

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def offered(pilot: Pilot[None]) -> set[str]:
    """Names of the keys in the last line, those included for which there is no room."""
    return {each.binding.description for each in pilot.app.screen.query_one(KeyBar)._shown()}


def recording(root: Path, name: str) -> Run:
    run = RunStore(root).create("recorded")
    unpack(FIXTURES / name, run)
    return run


@pytest.mark.parametrize(
    ("outcome", "there", "not_there"),
    [
        ("complete", {"Open", "Export", "Delete", "Mark"}, {"Resume", "Stop", "Compare"}),
        ("stopped", {"Open", "Export", "Delete", "Resume"}, {"Stop", "Compare"}),
    ],
)
async def test_runs_offers_what_goes_with_the_run_under_the_cursor(
    tmp_path: Path, outcome: Outcome, there: set[str], not_there: set[str]
) -> None:
    plan = journals.experiment(("tiny", "small"))
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    for index in range(2 if outcome == "complete" else 1):
        writer.case(index, plan.cases()[index], 40.0)
    writer.end(outcome)
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await open_runs(pilot)
        await settle(pilot, lambda: there <= offered(pilot))
        assert not not_there & offered(pilot)


async def test_runs_offers_to_stop_what_runs_and_to_compare_what_is_marked(tmp_path: Path) -> None:
    live, _ = live_run(tmp_path)
    over = journals.finished(RunStore(tmp_path), ("tiny",))
    app, _ = make_app(tmp_path)
    with live.lock():
        async with app.run_test(size=(120, 30)) as pilot:
            await open_runs(pilot)
            await settle(pilot, lambda: len(table(app).rows) == 2)
            await pilot.press("end" if table(app).shown_keys[-1] == live.id else "home")
            await settle(pilot, lambda: "Stop" in offered(pilot))
            assert not {"Resume", "Delete", "Compare"} & offered(pilot)
            app.session.mark(live)
            app.show_newest()
            await settle(pilot, lambda: contains(app, "space on another run marks B"))
            app.session.mark(over)
            app.show_newest()
            await settle(pilot, lambda: "Compare" in offered(pilot))
            assert contains(app, "c compares A and B")


async def test_an_empty_list_offers_nothing_of_a_run(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot)
        await pilot.press("2")
        await settle(pilot, lambda: app.current_mode == "runs")
        assert offered(pilot) == {"Help", "Commands", "Quit"}


@pytest.mark.parametrize(
    ("key", "not_there"),
    [
        ("3", {"Phase", "Case", "Filter", "Closer", "Export"}),
        ("4", {"Phase", "Case", "Closer", "Axis", "Stack"}),
        ("5", {"Table", "Swap", "Export", "Force"}),
        ("6", {"Time", "Pause", "Value", "Watch", "Export"}),
    ],
)
async def test_without_a_run_a_view_offers_nothing_of_one(
    tmp_path: Path, key: str, not_there: set[str]
) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot)
        await pilot.press(key)
        await settle(pilot, lambda: app.current_mode != "bench")
        assert not not_there & offered(pilot)


@pytest.mark.parametrize(
    ("name", "there", "not_there"),
    [
        ("own-loop-cpu.llmprof", {"Time", "Export"}, {"Pause", "Watch"}),
        ("warmup-h100.llmprof", set[str](), {"Time", "Pause", "Value", "Export"}),
    ],
)
async def test_loop_offers_what_goes_with_a_loop(
    tmp_path: Path, name: str, there: Sequence[str], not_there: set[str]
) -> None:
    app, _ = make_app(tmp_path, watch=recording(tmp_path, name))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: not app.session.snapshot.loading)
        await pilot.press("6")
        await settle(pilot, lambda: app.current_mode == "loop" and set(there) <= offered(pilot))
        assert not not_there & offered(pilot)
