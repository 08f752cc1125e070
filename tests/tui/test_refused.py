"""What the disk, the folder or another user refuse is told; the screen goes on."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from llmprof.core.store.run import Run, RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.runs.export import ExportDialog
from tests.tui import journals
from tests.tui.apps import make_app
from tests.tui.frames import contains, settle


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def refuse(number: int) -> Callable[..., Any]:
    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refused


async def on_runs(pilot: Pilot[Any]) -> None:
    await pilot.press("2")
    await settle(pilot, lambda: contains(cast(LlmprofApp, pilot.app), "complete"))


@pytest.mark.parametrize(
    ("keys", "method"),
    [(("n", "a", "enter"), "write_text"), (("d", "d"), "rmtree"), (("x",), "kill")],
    ids=["rename", "delete", "stop"],
)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EPERM, errno.EROFS])
async def test_what_is_refused_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...], method: str, number: int
) -> None:
    run = journals.finished(RunStore(tmp_path))
    run.rename("before")
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30), notifications=True) as pilot:
        await on_runs(pilot)
        monkeypatch.setattr(Run, "engine_pid", lambda _: 1)
        owner = {"write_text": Path, "rmtree": shutil, "kill": os}[method]
        monkeypatch.setattr(owner, method, refuse(number))
        await pilot.press(*keys)
        await settle(pilot, lambda: contains(app, os.strerror(number)))
        monkeypatch.undo()
        assert app.return_code is None  # it goes on
    assert run.label == "before"


@pytest.mark.parametrize("keys", [("n", "a", "enter"), ("d", "d"), ("e",), ("w",), ("x",)])
async def test_a_run_that_was_deleted_elsewhere(tmp_path: Path, keys: tuple[str, ...]) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30), notifications=True) as pilot:
        await on_runs(pilot)
        app.ticker.index.follow(False)  # it is still listed
        shutil.rmtree(run.path)
        await pilot.press(*keys)
        await settle(pilot)
        assert not contains(app, "Errno")
        assert app.return_code is None  # it goes on
    assert not run.path.exists()


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
