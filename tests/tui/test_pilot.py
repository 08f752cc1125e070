"""Every key in every view, at the two sizes people have."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from textual.binding import Binding
from textual.command import CommandList
from textual.pilot import Pilot
from textual.widgets import Input

from llmprof.core.report import render
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.bench.setup import SetupPane
from llmprof.tui.bench.step_log import StepLog
from llmprof.tui.bench.view import BenchView
from llmprof.tui.help import HelpDialog
from llmprof.tui.kit.ask import AskDialog
from llmprof.tui.kit.ask_name import NameDialog
from llmprof.tui.kit.chips import Chips
from llmprof.tui.kit.look import ASCII
from llmprof.tui.kit.table import Table
from llmprof.tui.kit.ticks import Ticks
from llmprof.tui.kit.too_small import TooSmall
from llmprof.tui.runs.export import ExportDialog
from llmprof.tui.runs.view import RunsView
from llmprof.tui.session.remembered import recall
from llmprof.tui.views import VIEWS
from tests.tui import journals
from tests.tui.apps import SIZES, make_app
from tests.tui.frames import contains, look_again, settle, text_of

sizes = pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def bench(app: LlmprofApp) -> BenchView:
    view = app.base_view
    assert isinstance(view, BenchView)
    return view


def focused_id(app: LlmprofApp) -> str | None:
    return app.focused.id if app.focused else None


def pinned(view: BenchView) -> list[int]:
    return [] if view.pinned is None else [view.pinned]


def shows(app: LlmprofApp, name: str) -> bool:
    return app.current_mode == name


def table(app: LlmprofApp) -> Table:
    assert app.base_view is not None
    return app.base_view.query_one(Table)


async def open_runs(pilot: Pilot[Any]) -> RunsView:
    await pilot.press("2")
    await settle(pilot)
    view = cast(LlmprofApp, pilot.app).base_view
    assert isinstance(view, RunsView)
    await settle(pilot, lambda: bool(view.query_one(Table).rows))
    return view


# Bench: from nothing to a run


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


@sizes
async def test_the_form_is_filled_in_with_keys_alone(tmp_path: Path, size: tuple[int, int]) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await pilot.press("up", "space", "down", "space")  # tiny on, small off
        assert app.choices.models == ("tiny",)
        await pilot.press("a")
        assert len(app.choices.models) == len(app.models)
        await pilot.press("a", "k", "j")
        assert app.choices.models == ("small",)
        while focused_id(app) != "modes":
            await pilot.press("down")
        await pilot.press("left", "space")
        assert set(app.choices.modes) == {"forward-backward", "train"}
        await pilot.press("enter")
        assert set(app.choices.modes) == {"forward-backward"}
        await pilot.press("space")
        assert set(app.choices.modes) == {"forward-backward"}  # one stays
        await pilot.press("h", "l", "right", "k", "j", "j")
        assert focused_id(app) == "precisions"
        while focused_id(app) != "context":
            await pilot.press("down")
        await pilot.press("backspace", "backspace", "backspace")
        assert contains(app, "Context: a number is missing")
        await pilot.press("r")  # a letter in a field is no key
        assert not starter.started
        await pilot.press("backspace", "6", "4", "comma", "3", "2")
        assert app.choices.context == "64,32"
        await pilot.press("enter", "up", "escape")
        assert app.focused is None
        await pilot.press("r")
        await settle(pilot)
        assert starter.started[0][1].context_lengths == (64, 32)
    assert recall(app.models).context == "64,32"


@sizes
async def test_an_invalid_form_does_not_run_and_says_why(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await pilot.press("space")
        assert contains(app, "tick at least one model")
        await pilot.press("r")
        await pilot.press("c")
        assert not starter.started
        assert isinstance(app.focused, Ticks)


async def test_f5_runs_from_a_field_and_c_copies(tmp_path: Path) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot)
        await pilot.press("c")
        assert app.clipboard.startswith("llmprof run --model-size small --mode train")
        app.screen.query_one("#context", Input).focus()
        await pilot.press("f5")
        await settle(pilot)
        assert len(starter.started) == 1


# Bench: a run in sight


def live_run(root: Path) -> tuple[Run, journals.Writer]:
    plan = journals.experiment(("tiny", "small", "medium"), 30)
    run = RunStore(root).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    writer.case(0, plan.cases()[0], 40.0)
    writer.case(1, plan.cases()[1], 90.0, 20, finish=False)
    return run, writer


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


# Export


@sizes
async def test_export_previews_and_writes(tmp_path: Path, size: tuple[int, int]) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run)
    target = tmp_path / "out.md"
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("e")
        dialog = app.screen
        assert isinstance(dialog, ExportDialog)
        await settle(pilot, lambda: bool(dialog.text))
        assert contains(app, "# llmprof")
        dialog.query_one("#path", Input).value = str(target)
        await pilot.press("shift+tab", "right", "space")
        await settle(pilot, lambda: dialog.format == "csv" and bool(dialog.text))
        target = target.with_suffix(".csv")
        assert dialog.query_one("#path", Input).value == str(target)
        await pilot.press("tab", "tab", "down", "j", "up", "k", "right", "left", "h", "l")
        await pilot.press("ctrl+s")
        await settle(pilot, lambda: app.screen is not dialog)
        assert target.read_text("utf-8") == render(replay(run.journal), "csv")
        await pilot.press("e")
        again = app.screen
        assert isinstance(again, ExportDialog)
        await settle(pilot, lambda: bool(again.text))
        again.query_one("#path", Input).value = str(target)
        target.write_text("mine")
        again.query_one("#path", Input).focus()
        await pilot.press("enter")
        await settle(pilot)
        assert target.read_text("utf-8") == "mine"  # asked first
        await pilot.press("enter")
        await settle(pilot, lambda: app.screen is not again)
        assert target.read_text("utf-8") == render(replay(run.journal), "md")


async def test_export_to_nowhere_says_so_and_escape_leaves(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("e")
        dialog = cast(ExportDialog, app.screen)
        await settle(pilot, lambda: bool(dialog.text))
        dialog.query_one("#path", Input).value = "/proc/none/x.md"
        await pilot.press("ctrl+s")
        await settle(pilot)
        assert contains(app, "No such file")
        await pilot.press("escape")
        assert app.screen is not dialog


# Runs


@sizes
async def test_keys_of_the_runs_view(tmp_path: Path, size: tuple[int, int]) -> None:
    store = RunStore(tmp_path)
    first = journals.finished(store, ("tiny",))
    second = journals.finished(store, ("small", "medium"))
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        view = await open_runs(pilot)
        await settle(pilot, lambda: len(table(app).rows) == 2)
        await pilot.press("end", "home", "down", "up", "k", "j", "pageup", "pagedown")
        chosen = view.current
        assert chosen is not None
        other = second if chosen.id == first.id else first
        await pilot.press("n")
        assert isinstance(app.screen, NameDialog)
        await pilot.press(*"mine", "enter")
        await settle(pilot, lambda: contains(app, "mine"))
        assert chosen.label == "mine"
        await pilot.press("n", "escape")
        assert chosen.label == "mine"
        await pilot.press("slash", *"mine")
        await settle(pilot, lambda: table(app).shown_keys == [chosen.id])
        await pilot.press(*"zzz")
        await settle(pilot, lambda: table(app).shown_keys == [])
        assert view.current is None  # so that no key acts on a run that is out of sight
        await pilot.press("escape")
        await settle(pilot, lambda: len(table(app).shown_keys) == 2)
        await pilot.press("slash", *"mine", "enter", "escape")
        await settle(pilot, lambda: len(table(app).shown_keys) == 2)
        table(app).put_cursor(other.id)
        await pilot.press("d")
        assert isinstance(app.screen, AskDialog)
        await pilot.press("enter")  # the cursor stands on Keep
        await settle(pilot)
        assert other.path.exists()
        await pilot.press("d", "up", "down", "d")
        await settle(pilot, lambda: len(table(app).rows) == 1)
        assert not other.path.exists()
        await pilot.press("e")
        assert isinstance(app.screen, ExportDialog)
        await pilot.press("escape", "x", "enter")
        await settle(pilot, lambda: contains(app, "finished"))
        assert app.current_mode == "bench"
        assert app.session.run == chosen


@sizes
async def test_a_running_run_is_not_deleted(tmp_path: Path, size: tuple[int, int]) -> None:
    run, _ = live_run(tmp_path)
    app, _ = make_app(tmp_path)
    with run.lock():
        async with app.run_test(size=size) as pilot:
            await open_runs(pilot)
            assert contains(app, "running")
            await pilot.press("d")
            assert not isinstance(app.screen, AskDialog)
    assert run.path.exists()


# Everywhere


@sizes
async def test_keys_that_work_everywhere(tmp_path: Path, size: tuple[int, int]) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        for view in VIEWS:
            await pilot.press(view.KEY)
            await settle(pilot, partial(shows, app, view.VIEW))
            await pilot.press("question_mark")
            assert isinstance(app.screen, HelpDialog)
            await settle(pilot)
            assert contains(app, "Keys")
            await pilot.press("down", "escape")
            await pilot.press("ctrl+p")
            await settle(pilot)
            assert len(app.screen_stack) == 2
            await pilot.press("escape")
            await settle(pilot)
        dark = app.current_theme.dark
        await pilot.press("t")
        assert app.current_theme.dark is not dark
        await pilot.press("f1")
        assert isinstance(app.screen, HelpDialog)
        await pilot.press("escape", "q")
    assert app.return_code == 0
    assert starter.dismissed


async def test_ctrl_c_leaves_with_130(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("ctrl+c")
    assert app.return_code == 130


async def test_ctrl_q_leaves_from_a_field(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.screen.query_one("#batch", Input).focus()
        await pilot.press("ctrl+q")
    assert app.return_code == 0


@sizes
async def test_quitting_asks_about_a_run(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = live_run(tmp_path)
    app, _ = make_app(tmp_path, watch=run)
    with run.lock():
        async with app.run_test(size=size) as pilot:
            await settle(pilot, lambda: contains(app, "live"))
            for back in ("escape", "c"):
                await pilot.press("q")
                assert isinstance(app.screen, AskDialog)
                assert contains(app, "Leave it running")
                await pilot.press("escape" if back == "c" else back)
                assert not isinstance(app.screen, AskDialog)
            await pilot.press("q", "l")
    assert app.return_code == 0
    assert app.left_running == run


async def test_stopping_on_the_way_out_waits_for_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = live_run(tmp_path)
    app, _ = make_app(tmp_path, watch=run)
    lock = run.lock()
    lock.__enter__()
    asked: list[bool] = []

    def stop(_: Run, *, force: bool = False) -> bool:
        asked.append(force)
        lock.__exit__(None, None, None)
        return True

    monkeypatch.setattr(Run, "stop", stop)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "live"))
        await pilot.press("ctrl+c")
        assert isinstance(app.screen, AskDialog)
        await pilot.press("ctrl+c")
        await settle(pilot, lambda: app.return_code is not None)
    assert asked == [False]
    assert app.return_code == 130
    assert app.left_running is None


async def test_the_palette_names_everything_that_can_be_done(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {"bench: run", "bench: export", "bench: zoom", "view: runs", "app: quit",
                "theme: llmprof-light"} <= titles  # fmt: skip
        assert "bench: stop" not in titles  # nothing runs
        await open_runs(pilot)
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {"runs: open", "runs: delete", "runs: rename"} <= titles
        await pilot.press("ctrl+p")
        await settle(pilot)
        await pilot.press(*"view: bench")
        found = app.screen.query_one(CommandList)
        await settle(pilot, lambda: found.option_count == 1)
        await pilot.press("enter", "enter")
        await settle(pilot, lambda: app.current_mode == "bench")


def test_tabs_and_views_agree() -> None:
    for entry in VIEWS:
        view = entry.load()
        assert (view.VIEW, view.LABEL, view.KEY) == (entry.VIEW, entry.LABEL, entry.KEY)


def test_every_binding_has_an_id_and_a_tooltip() -> None:
    from llmprof.tui.kit import ask, ask_name, field, ticks
    from llmprof.tui.runs import export

    views = [view.load() for view in VIEWS]
    nodes = (LlmprofApp, *views, ask.AskDialog, export.ExportDialog, export.Preview,
             ask_name.NameDialog, field.FormInput, ticks.Ticks, Chips, Table, StepLog)  # fmt: skip
    seen: set[str] = set()
    for node in nodes:
        for binding in vars(node).get("BINDINGS", []):
            assert isinstance(binding, Binding)
            assert binding.tooltip, binding
            assert binding.id, binding
            assert binding.id not in seen, binding.id
            seen.add(binding.id)
    assert len(seen) > 50


# Shape and look


@pytest.mark.parametrize("size", [(1, 1), (40, 12), (59, 30), (80, 15)])
async def test_too_small_is_one_line(tmp_path: Path, size: tuple[int, int]) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        lines = [line for line in text_of(app).splitlines() if line.strip()]
        assert len(lines) == 1
        assert "too small: llmprof needs 60x16".startswith(lines[0].strip())
        assert app.screen.query_one(TooSmall).display
        await pilot.resize_terminal(80, 24)
        await settle(pilot, lambda: contains(app, "Experiment"))


@pytest.mark.parametrize("size", [(60, 16), (99, 24), (139, 40), (400, 100)])
async def test_every_usable_size_shows_setup_and_run(tmp_path: Path, size: tuple[int, int]) -> None:
    run, _ = live_run(tmp_path)
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "Step time"))
        for widget in ("#step-chart", "#results"):
            assert app.screen.query_one(widget).region.height >= 3
        await pilot.press("s")
        await settle(pilot)
        assert app.screen.query_one(SetupPane).region.width > 20
        assert contains(app, "small")
        assert contains(app, "Command")


async def test_the_mouse_works(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path), ("tiny", "small", "medium"))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.click("#results", offset=(5, 2))
        assert bench(app).pinned == 0
        await pilot.press("s")
        await settle(pilot)
        await pilot.click("#models", offset=(5, 0))
        assert "tiny" in app.choices.models
        await pilot.click("#precisions", offset=(22, 0))
        assert app.choices.precisions == ("fp32", "tf32")
        await pilot.click("Header", offset=(21, 0))
        await settle(pilot, lambda: app.current_mode == "runs")


async def test_ascii_mode_draws_ascii_alone(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run, look=ASCII)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        for keys in ([], ["s"], ["2"], ["e"], ["escape", "question_mark"], ["escape", "ctrl+p"]):
            await pilot.press(*keys)
            await settle(pilot)
            assert not {char for char in text_of(app) if not char.isascii()}, keys


@pytest.mark.parametrize("theme", ["textual-dark", "nord", "ansi-dark"])
async def test_other_themes_work(tmp_path: Path, theme: str) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run, theme=theme)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        assert app.theme == theme


async def test_two_screens_watch_one_run(tmp_path: Path) -> None:
    run, writer = live_run(tmp_path)
    one, _ = make_app(tmp_path, watch=run)
    other, _ = make_app(tmp_path, watch=run)
    with run.lock():
        async with one.run_test(size=(80, 24)) as first, other.run_test(size=(120, 30)) as second:
            await settle(first, lambda: contains(one, "1/3 cases"))
            await settle(second, lambda: contains(other, "1/3 cases"))
            await first.press("space")  # holds the picture of one screen alone
            await settle(first, lambda: contains(one, "paused"))
            writer.end("stopped")
            await settle(second, lambda: contains(other, "stopped"))
            assert not contains(one, "stopped")
            await first.press("space")
            await settle(first, lambda: contains(one, "stopped"))
            assert one.snapshot.view.events == other.snapshot.view.events
            assert one.snapshot.view.outcome == other.snapshot.view.outcome == "stopped"
