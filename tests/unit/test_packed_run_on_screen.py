"""A run that was brought home in one file, on the screen; and a path where a command is wanted."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from llmprof.cli import screen
from llmprof.cli.main import main
from llmprof.core.store.files import JOURNAL
from llmprof.core.store.pack import open_view, unpack
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.session.starter import CannotStart, NoStarter
from tests.builders.handmade import experiment

FIXTURES = Path(__file__).parents[1] / "fixtures"
RUN, LOOP = FIXTURES / "precision-h200.llmprof", FIXTURES / "own-loop-cpu.llmprof"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made; the screen leaves nothing there."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return folder


def failed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(("recording", "shown_in"), [(RUN, "bench"), (LOOP, "loop")])
def test_a_copy_is_shown_which_goes_with_the_screen(
    recording: Path, shown_in: str, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(*, store: RunStore, watch: Run, starter: NoStarter, view: str, **_: Any) -> int:
        assert [run.id for run in store.list()] == [watch.id] == [recording.stem]
        assert open_view(watch.path).events == open_view(recording).events
        assert view == shown_in
        with pytest.raises(CannotStart, match=f"{recording.name} is shown from a copy"):
            starter.start(watch, experiment(), ())
        return 143

    before = recording.read_bytes()
    monkeypatch.setattr(screen, "open_screen", look)
    assert main(["screen", str(recording)]) == 143
    assert recording.read_bytes() == before
    assert list(temporary.iterdir()) == []


def test_the_journal_of_a_run_stands_for_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunStore(tmp_path / "runs").create("x")
    unpack(RUN, run)
    seen: list[Run] = []

    def look(*, watch: Run, **_: Any) -> int:
        seen.append(watch)
        return 0

    monkeypatch.setattr(screen, "open_screen", look)
    for given in (run.journal, run.path):
        assert main(["screen", str(given)]) == 0
    assert seen == [run, run]


def test_files_that_hold_no_run_are_refused_in_one_line(
    tmp_path: Path, temporary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.llmprof"
    path.write_bytes(RUN.read_bytes()[:-30])
    assert "damaged" in failed(capsys, "screen", "run.llmprof")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "x")
    assert f"has no {JOURNAL}" in failed(capsys, "screen", "run.llmprof")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(JOURNAL, "x\n")
    assert "holds no run of llmprof" in failed(capsys, "screen", "run.llmprof")
    path.write_text("notes")
    assert "no run" in failed(capsys, "screen", "run.llmprof")
    assert list(temporary.iterdir()) == []


def test_a_file_where_a_command_is_wanted_is_told_what_takes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my run.llmprof").write_bytes(RUN.read_bytes())
    assert failed(capsys, "my run.llmprof") == (
        "llmprof: my run.llmprof is no command: `llmprof screen 'my run.llmprof'` shows a run or "
        "a write-up, `llmprof report 'my run.llmprof'` writes its document, "
        "`llmprof show 'my run.llmprof'` prints a run\n"
    )
    (tmp_path / "folder").mkdir()
    assert "`llmprof screen ./folder` shows" in failed(capsys, "./folder")
    assert "unknown command 'folder'" in failed(capsys, "folder")


def test_the_list_of_runs_says_what_shows_a_single_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "`llmprof screen` shows it" in failed(capsys, "runs", str(RUN))
