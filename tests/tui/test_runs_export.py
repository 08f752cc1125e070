"""The export dialog."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import cast

import pytest
from textual.widgets import Input

from llmprof.core.report.formats import render
from llmprof.core.store.journal import replay
from llmprof.core.store.run import RunStore
from llmprof.tui.runs.export import ExportDialog
from tests.builders import journals
from tests.tui.apps import make_app, sizes
from tests.tui.frames import contains, settle


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


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
        await settle(pilot, lambda: again.format == "csv" and bool(again.text))
        target.write_text("mine")
        again.query_one("#path", Input).focus()
        await pilot.press("enter")
        await settle(pilot)
        assert target.read_text("utf-8") == "mine"  # asked first
        await pilot.press("enter")
        await settle(pilot, lambda: app.screen is not again)
        assert target.read_text("utf-8") == render(replay(run.journal), "csv")


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


async def test_an_export_of_a_deleted_run_says_why_there_is_none(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30), notifications=True) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        shutil.rmtree(run.path)
        await pilot.press("e")
        await settle(pilot, lambda: contains(app, "cannot export: "))
        assert contains(app, os.strerror(errno.ENOENT))
        assert not contains(app, "reading the run")
        await pilot.press("ctrl+s")
        await settle(pilot)
        assert contains(app, "cannot export: ")


@pytest.mark.parametrize("path", ["~nobody-of-this-name/x.md", "", "/", "no/such/folder/x.md"])
async def test_a_path_that_cannot_be_written_is_told(tmp_path: Path, path: str) -> None:
    app, _ = make_app(tmp_path, watch=journals.finished(RunStore(tmp_path)))
    async with app.run_test(size=(120, 30), notifications=True) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("e")
        dialog = cast(ExportDialog, app.screen)
        await settle(pilot, lambda: bool(dialog.text))
        dialog.query_one("#path", Input).value = path
        for _ in range(2):
            await pilot.press("ctrl+s")
            await settle(pilot)
        assert app.screen is dialog
        assert str(dialog.query_one("#export-problem").render())


async def test_an_export_from_a_folder_that_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.setenv("HOME", str(tmp_path))
    run = journals.finished(RunStore(tmp_path / "runs"))
    gone.rmdir()
    app, _ = make_app(tmp_path / "runs", watch=run)
    async with app.run_test(size=(120, 30), notifications=True) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("e")
        dialog = cast(ExportDialog, app.screen)
        await settle(pilot, lambda: bool(dialog.text))
        await pilot.press("ctrl+s")
        await settle(pilot, lambda: app.screen is not dialog)
    assert (tmp_path / f"{run.id}.md").read_text().startswith("# ")


async def test_the_extension_picks_the_format(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("e")
        dialog = app.screen
        assert isinstance(dialog, ExportDialog)
        await settle(pilot, lambda: bool(dialog.text))
        target = tmp_path / "r.json"
        dialog.query_one("#path", Input).value = str(target)
        await settle(pilot, lambda: dialog.format == "json" and bool(dialog.text))
        assert contains(app, "● json")
        await pilot.press("ctrl+s")
        await settle(pilot, lambda: app.screen is not dialog)
    assert target.read_text("utf-8") == render(replay(run.journal), "json")


async def test_what_was_wrong_with_a_path_goes_when_it_is_edited(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("e")
        dialog = app.screen
        assert isinstance(dialog, ExportDialog)
        await settle(pilot, lambda: bool(dialog.text))
        dialog.query_one("#path", Input).value = str(tmp_path / "r.xlsx")
        await pilot.press("enter")
        await settle(pilot, lambda: contains(app, "end the path in .md, .csv, .json"))
        assert not (tmp_path / "r.xlsx").exists()
        await pilot.press("backspace")
        await settle(pilot, lambda: not contains(app, "end the path in"))


async def test_the_document_of_a_run_is_written_with_what_lies_beside_it(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path, watch=run)
    target = tmp_path / "out.md"
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("e")
        dialog = cast(ExportDialog, app.screen)
        await settle(pilot, lambda: bool(dialog.text))
        dialog.query_one("#path", Input).value = str(target)
        await pilot.press("shift+tab", "right", "right", "right", "space")
        await settle(pilot, lambda: dialog.format == "html" and bool(dialog.text))
        assert contains(app, "## Machine and command")
        await pilot.press("ctrl+s")
        await settle(pilot, lambda: app.screen is not dialog)
    assert target.with_suffix(".html").read_text("utf-8").startswith("<!doctype html>")
    assert (tmp_path / "out-samples.csv").is_file()
