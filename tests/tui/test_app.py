"""What holds in every view: keys, leaving, commands, shape and look."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from textual.binding import Binding
from textual.command import CommandList
from textual.widgets import Input

from llmprof.core.store.run import Run, RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.bench.setup import SetupPane
from llmprof.tui.bench.step_log import StepLog
from llmprof.tui.help import HelpDialog
from llmprof.tui.kit.ask import Answer, AskDialog
from llmprof.tui.kit.checklist import Checklist
from llmprof.tui.kit.chips import Chips
from llmprof.tui.kit.look import ASCII
from llmprof.tui.kit.table import RowTable
from llmprof.tui.kit.too_small import TooSmall
from llmprof.tui.views import VIEWS
from tests.builders import journals
from tests.builders.journals import live_run
from tests.tui.apps import (
    bench,
    make_app,
    open_runs,
    shows,
    sizes,
)
from tests.tui.frames import contains, settle, text_of


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


# Keys


@sizes
async def test_keys_that_work_everywhere(tmp_path: Path, size: tuple[int, int]) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        for tab in VIEWS:
            await pilot.press(tab.key)
            await settle(pilot, partial(shows, app, tab.view))
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


async def test_the_palette_names_everything_that_can_be_done(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {"Bench: Run", "Bench: Export", "Bench: Time", "Go to: Runs", "llmprof: Quit",
                "Theme: llmprof-light"} <= titles  # fmt: skip
        assert "Bench: Stop" not in titles  # nothing runs
        assert "llmprof: Commands" not in titles  # that is the list itself
        await open_runs(pilot)
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {"Runs: Open", "Runs: Delete", "Runs: Rename"} <= titles
        await pilot.press("ctrl+p")
        await settle(pilot)
        await pilot.press(*"Go to: Bench")
        found = app.screen.query_one(CommandList)
        await settle(pilot, lambda: found.option_count == 1)
        await pilot.press("enter", "enter")
        await settle(pilot, lambda: app.current_mode == "bench")


def test_tabs_and_views_agree() -> None:
    for tab in VIEWS:
        assert tab.view == tab.load().VIEW


def test_every_binding_has_an_id_and_a_tooltip() -> None:
    from llmprof.tui.kit import ask, field
    from llmprof.tui.runs import export, name_dialog

    views = [view.load() for view in VIEWS]
    nodes = (LlmprofApp, *views, ask.AskDialog, export.ExportDialog, export.Preview,
             name_dialog.NameDialog, field.FormInput, Checklist, Chips, RowTable,
             StepLog)  # fmt: skip
    seen: set[str] = set()
    for node in nodes:
        for binding in vars(node).get("BINDINGS", []):
            assert isinstance(binding, Binding)
            assert binding.tooltip, binding
            assert binding.id, binding
            assert binding.id not in seen, binding.id
            seen.add(binding.id)
    assert len(seen) > 50


# Leaving


async def test_ctrl_c_leaves_with_130(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("ctrl+c")
    assert app.return_code == 130


async def test_ctrl_c_in_another_question_asks_about_the_run_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = live_run(tmp_path)
    app, _ = make_app(tmp_path, watch=run)
    asked: list[bool] = []

    def stop(_: Run, *, force: bool = False) -> bool:
        asked.append(force)
        return True

    monkeypatch.setattr(Run, "stop", stop)
    with run.lock():
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot, lambda: contains(app, "live"))
            other = AskDialog("Delete it?", "", [Answer("delete", "y", "Delete")])
            app.ask(other, lambda _: None)
            await settle(pilot, lambda: app.screen is other)
            await pilot.press("ctrl+c")
            await settle(pilot, lambda: contains(app, "Leave it running"))
            assert asked == []
            await pilot.press("l")
    assert app.return_code == 130
    assert app.left_running == run


async def test_ctrl_z_goes_back_to_the_shell_from_dialogs_and_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, _ = make_app(tmp_path)
    went: list[str] = []
    monkeypatch.setattr(app, "action_suspend_process", lambda: went.append(app.screen.name or ""))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.screen.query_one("#batch_size", Input).focus()
        await pilot.press("ctrl+z")
        assert len(went) == 1
        await pilot.press("escape")
        await pilot.press("question_mark")
        await settle(pilot, lambda: contains(app, "Keys"))
        await pilot.press("ctrl+z")
        assert len(went) == 2


async def test_ctrl_q_leaves_from_a_field(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.screen.query_one("#batch_size", Input).focus()
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


async def test_the_question_goes_with_the_run_that_ended(tmp_path: Path) -> None:
    run, _ = live_run(tmp_path)
    app, _ = make_app(tmp_path, watch=run)
    lock = run.lock()
    lock.__enter__()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "live"))
        await pilot.press("q")
        assert isinstance(app.screen, AskDialog)
        lock.__exit__(None, None, None)
        await settle(pilot, lambda: not isinstance(app.screen, AskDialog))
        assert app.return_code is None
        await pilot.press("q")
    assert app.return_code == 0


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
