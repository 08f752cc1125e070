"""The Bench view: from nothing to a run, and a run in sight."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.store.run import Run, RunStore
from llmprof.tui.bench.live import LivePanels
from llmprof.tui.bench.setup import SetupPane
from llmprof.tui.bench.step_log import StepLog
from tests.builders import journals
from tests.builders.journals import live_run
from tests.tui.apps import (
    bench,
    make_app,
    pinned,
    sizes,
    table,
)
from tests.tui.frames import contains, look_again, settle, text_of


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


# From nothing to a run


@sizes
async def test_two_keys_lead_to_a_running_benchmark(tmp_path: Path, size: tuple[int, int]) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        assert starter.warmed
        assert contains(app, "llmprof run --model-size small")
        await pilot.press("r")
        await settle(pilot, lambda: app.snapshot.view.environment is not None)
        assert [e.models[0].name for _, e, _ in starter.started] == ["small"]
        assert contains(app, "0/1 cases")
        plan = starter.started[0][1]
        starter.writers[0].case(0, plan.cases()[0], steps=4, finish=False)
        await settle(pilot, lambda: contains(app, "step 4 of 10"))
        assert contains(app, "Step time")
        assert contains(app, "forward")
        with starter.started[0][0].lock():  # as the engine holds it
            await pilot.press("r")
            await settle(pilot)
            assert len(starter.started) == 1  # one at a time


@sizes
async def test_no_panel_is_ever_empty(tmp_path: Path, size: tuple[int, int]) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        if size[0] < 100:
            await pilot.press("s")
            await settle(pilot)
        for text in ("waiting for the first step", "the card's curves", "one row a case",
                     "Ready"):  # fmt: skip
            assert contains(app, text)
        await pilot.press("2")
        await settle(pilot)
        assert contains(app, "no runs yet")


async def test_the_first_frame_has_the_form_and_the_panels_follow(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        assert app.screen.query(SetupPane)
        await settle(pilot, lambda: contains(app, "waiting for the first step"))
        assert app.screen.query_one(LivePanels).ready


async def test_a_watched_run_has_its_panels_at_once(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path, watch=journals.finished(RunStore(tmp_path)))
    async with app.run_test(size=(120, 30)) as pilot:
        assert app.screen.query(LivePanels)
        await settle(pilot, lambda: contains(app, "finished"))
        assert app.focused is not None
        assert app.focused.id == "results"
        assert not contains(app, "Models")


# A run in sight


@sizes
async def test_keys_of_the_live_view(tmp_path: Path, size: tuple[int, int]) -> None:
    run, writer = live_run(tmp_path)
    app, _ = make_app(tmp_path, watch=run)
    with run.lock():
        async with app.run_test(size=size) as pilot:
            await settle(pilot, lambda: contains(app, "step 20 of 30"))
            assert contains(app, "1/3 cases")
            assert contains(app, "warm")
            view = bench(app)
            assert table(app).cursor == "1"
            await pilot.press("up")
            assert pinned(view) == [0]
            await pilot.press("end")
            assert pinned(view) == [2]
            await pilot.press("home", "pagedown", "pageup")
            assert pinned(view) == [0]
            await pilot.press("f")
            assert not pinned(view)
            assert table(app).cursor == "1"
            for name in ("last 300 s", "last 60 s", "last 15 s", "whole case"):
                await pilot.press("z")
                assert contains(app, name)
            await pilot.press("o")
            assert table(app).order == (0, False)
            await pilot.press("O")
            assert table(app).order == (0, True)
            await pilot.press("l")
            assert view.has_class("-log")
            await pilot.press("l", "s")
            assert view.has_class("-setup")
            await pilot.press("escape")
            assert not view.has_class("-setup")
            await pilot.press("space")
            assert contains(app, "paused")
            before = text_of(app)
            plan = journals.experiment(("tiny", "small", "medium"), 30)
            writer.step(1, plan.cases()[1], 20, False, 90.0)
            await look_again(pilot)
            assert text_of(app) == before
            await pilot.press("space")
            await settle(pilot, lambda: contains(app, "step 21 of 30"))


@sizes
async def test_the_step_log_scrolls_and_stays(tmp_path: Path, size: tuple[int, int]) -> None:
    run, _ = live_run(tmp_path)
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "interrupted"))
        if size[0] < 100:
            await pilot.press("l")
            await settle(pilot)
        log = app.screen.query_one(StepLog)
        log.focus()
        await pilot.press("home")
        await settle(pilot)
        assert contains(app, "w1")
        await pilot.press("pagedown", "pageup", "down", "up", "k", "j")
        assert contains(app, "scrolled back")
        await pilot.press("end")
        assert not contains(app, "scrolled back")


@sizes
async def test_a_failed_case_says_why(tmp_path: Path, size: tuple[int, int]) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        assert contains(app, "complete")
        await pilot.press("end")
        await settle(pilot)
        assert contains(app, "oom in backward, asked for 3.00 GiB")


@sizes
async def test_stop_asks_the_engine(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []

    def stop(asked: Run, *, force: bool = False) -> bool:
        stopped.append(asked.id)
        return True

    monkeypatch.setattr(Run, "stop", stop)
    run, _ = live_run(tmp_path)
    app, _ = make_app(tmp_path, watch=run)
    with run.lock():
        async with app.run_test(size=size) as pilot:
            await settle(pilot, lambda: contains(app, "live"))
            await pilot.press("x")
    assert stopped == [run.id]


async def test_the_verdict_of_the_row_under_the_cursor_is_whole(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path), ("tiny", "small"))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("end")
        await settle(pilot, lambda: contains(app, "in backward asked 3.00 GiB: out of memory"))
        await pilot.press("home")
        await settle(pilot, lambda: contains(app, "very stable"))
        heading = next(line for line in text_of(app).splitlines() if "Results" in line)
        assert "asked" not in heading


async def test_no_case_runs_on_in_a_run_whose_engine_is_gone(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = store.create("bench")
    writer = journals.Writer(run)
    plan = journals.experiment(("small", "medium"))
    writer.begin(plan)
    writer.case(0, plan.cases()[0], steps=4, finish=False)
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        with run.lock():
            app.watch_run(run)
            await settle(pilot, lambda: contains(app, "4/10"))
            assert contains(app, "step 4 of 10")
            assert contains(app, f"{app.look.running} ")
            assert contains(app, "pending")
        await settle(pilot, lambda: contains(app, "its engine is gone"))
        assert not contains(app, f"{app.look.running} ")
        assert not contains(app, "pending")
        assert contains(app, "killed")
        assert contains(app, "skipped")
        app.toggle_pause()  # a picture that is held stays as it is
        await settle(pilot)
        assert contains(app, "killed")
