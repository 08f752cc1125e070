"""What is known to crash or leak in a Textual app; each trap has its test here or in test_pty."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest
from rich.style import Style
from textual import events
from textual.color import Color
from textual.geometry import Region
from textual.widgets import Input

from llmprof.core import events as ev
from llmprof.core.store.run import RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.bench.live import LivePanels
from llmprof.tui.bench.setup import SetupPane
from llmprof.tui.bench.view import BenchView
from llmprof.tui.help import HelpDialog
from llmprof.tui.kit.ask import AskDialog
from llmprof.tui.kit.canvas import Canvas
from llmprof.tui.kit.colors import DARK_THEME, LIGHT_THEME
from tests.builders import journals
from tests.tui.apps import make_app
from tests.tui.frames import contains, look_again, settle, text_of

NASTY = "[/] model[red] [@click=app.quit]x[/] \x1b[31m\x1b]0;owned\x07 \u202e模型\x00"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


async def test_names_are_never_markup_nor_escapes(tmp_path: Path) -> None:
    plan = journals.experiment((NASTY, "small"))
    run = RunStore(tmp_path).create("bench")
    run.rename(NASTY)
    writer = journals.Writer(run)
    writer.begin(plan, device_name=NASTY)
    writer.case(0, plan.cases()[0], 40.0)
    writer.put(ev.Log(t=writer.t, message=NASTY, level="error"))
    writer.fail(1, "error", NASTY)
    writer.end("failed")
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "failed"))
        assert contains(app, "[/] model[red]")
        await pilot.press("end")
        await settle(pilot)
        for keys in (["2"], ["n"], ["escape", "d"], ["escape", "e"], ["escape", "1", "q"]):
            await pilot.press(*keys)
            await pilot.pause()
            text = text_of(app)
            assert "\x1b" not in text
            assert "\x07" not in text
            assert "\u202e" not in text
            if app._exit:
                break


async def test_unknown_and_infinite_figures_draw(tmp_path: Path) -> None:
    plan = journals.experiment(("small",), 6)
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    case = plan.cases()[0]
    writer.case(0, case, 40.0, 3, finish=False)
    strange = {"utilization": ev.Metric(None, "not supported"), "power": ev.Metric(1e308)}
    writer.put(ev.DeviceSample(t=writer.t, host=ev.HostSample(),
                               cards=(ev.CardSample(index=0, metrics=strange),)))  # fmt: skip
    for total in (0.0, 1e-9, 1e300):
        writer.put(ev.StepDone(t=writer.t, case=0, index=9, warmup=False, start_ns=writer.t,
                               wall_ms=total, total_ms=total, device_ms=(None,) * 5,
                               host_ms=()))  # fmt: skip
    with run.journal.open("ab") as file:
        file.write(b'{"kind":"StepDone","t":1,"case":0,"wall_ms":NaN}\n{"kind":"New","t":1}\ntorn')
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: app.snapshot.view.unknown_events == 1)
        await settle(pilot)
        assert app.snapshot.view.damaged_lines >= 1
        assert contains(app, "Step time")
        assert "nan" not in text_of(app).lower().replace("nano", "")
        assert "inf " not in text_of(app)


async def test_an_empty_journal_waits(tmp_path: Path) -> None:
    run = RunStore(tmp_path).create("bench")
    app, _ = make_app(tmp_path, watch=run)
    with run.lock():
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot, lambda: contains(app, "starting up"))
            assert contains(app, "waiting for the first step")


async def test_a_key_pressed_twice_opens_one_dialog(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("question_mark", "question_mark", "question_mark")
        await settle(pilot)
        assert isinstance(app.screen, HelpDialog)
        assert len(app.screen_stack) == 2
        await pilot.press("escape", "e", "e", "escape")
        await settle(pilot)
        assert len(app.screen_stack) == 1
        await pilot.press("r", "r", "r")
        await settle(pilot)


async def test_a_paste_is_no_command(tmp_path: Path) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.screen.post_message(events.Paste("r\nq\nq\n"))
        await settle(pilot)
        assert not starter.started
        assert app.return_code is None
        field = app.screen.query_one("#context_length", Input)
        field.value = ""
        field.focus()
        field.post_message(events.Paste("128,256"))
        await settle(pilot, lambda: app.choices.context_length == "128,256")


async def test_only_changed_spans_are_refreshed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = journals.experiment(("small",), 100)
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    case = plan.cases()[0]
    writer.case(0, case, 100.0, 30, finish=False)
    app, _ = make_app(tmp_path, watch=run)
    asked: list[tuple[Canvas, tuple[Region, ...]]] = []
    original = Canvas.refresh

    def refresh(self: Canvas, *regions: Region, **options: bool) -> Canvas:
        asked.append((self, regions))
        return original(self, *regions, **options)

    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "interrupted"))
        await look_again(pilot)
        monkeypatch.setattr(Canvas, "refresh", refresh)
        app.show_newest()
        app.show_newest()
        assert asked == []  # nothing changed, nothing is sent
        writer.step(0, case, 30, False, 100.0)
        await settle(pilot, lambda: app.snapshot.view.cases[0].steps_done == 36)
        assert asked
        assert all(regions for _, regions in asked)
        cells = sum(region.area for _, regions in asked for region in regions)
        assert cells < 1200  # of 3,600


async def test_long_runs_leave_bounded_curves(tmp_path: Path) -> None:
    run = journals.long_run(tmp_path, 5000)
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        curves = app.screen.query_one(LivePanels)._curves
        assert curves is not None
        sizes = [len(envelope._columns) for envelope in curves.phases.values()]
        assert max(sizes) <= 1024
        assert curves.total.n == 5000


async def test_threads_end_with_the_app(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, starter = make_app(tmp_path, watch=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("q")
    names = {thread.name for thread in threading.enumerate()}
    assert not {"llmprof-feed", "llmprof-index"} & names
    assert starter.dismissed


async def test_a_screen_that_ends_at_once_mounts_nothing_more(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot)
        pane, view = app.screen.query_one(SetupPane), app.base_view
        assert isinstance(view, BenchView)
        view._live = None
    await pane._mount_rest()  # what was asked for before the end may still come
    view._mount_panels()
    assert view._live is None


async def test_a_crash_of_the_screen_is_not_a_success(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)
            app.call_later(lambda: 1 // 0)
            await pilot.pause()
    assert app.return_code == 1
    assert app.left_running is None


async def test_a_run_that_a_crash_leaves_behind_is_named(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run)
    with run.lock(), pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)
            app.call_later(lambda: 1 // 0)
            await pilot.pause()
    assert app.left_running is run


async def test_workers_of_one_group_do_not_end_those_of_another(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        groups = {worker.group for worker in app.workers}
        assert "default" not in groups


async def test_stalled_terminal_gets_no_further_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        shown: list[int] = []
        monkeypatch.setattr(app.base_view, "catch_up", lambda: shown.append(1))
        app.session._snapshot = None
        app._driver.backlog = 30  # type: ignore[union-attr]
        app.ticker.tick()
        assert shown == []
        app._driver.backlog = 0  # type: ignore[union-attr]
        app.ticker.tick()
        assert shown == [1]
        assert not isinstance(cast(object, app.screen), AskDialog)


async def test_the_palette_follows_the_theme(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert accent(app) == DARK_THEME.accent
        await pilot.press("t")
        await settle(pilot)
        assert accent(app) == LIGHT_THEME.accent


def accent(app: LlmprofApp) -> str:
    color = app.palette.style("accent", Style(), Color.parse("black")).color
    assert color is not None
    return color.name.lower()
