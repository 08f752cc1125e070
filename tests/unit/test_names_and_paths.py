"""What is a run's name and what a path, and what is said of the one where the other is wanted."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import llmprof
from llmprof.cli.main import main
from llmprof.cli.output import _name_kept
from llmprof.cli.screen import find_beside_others
from llmprof.cli.show import find_source
from llmprof.core.state.view import RunView
from llmprof.core.store.pack import pack
from llmprof.core.store.run import Run, RunStore
from tests.builders.tracked_rows import write_loop


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A loop called my-run, in a folder of its own; the working folder is beside it."""
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return write_loop(RunStore().root)


def test_a_folder_that_is_called_like_a_run_does_not_hide_it(run: Run) -> None:
    Path("my-run").mkdir()
    assert find_source("my-run") == run.path
    assert llmprof.open("my-run").path == run.path
    with ExitStack() as stack:
        assert find_beside_others("my-run", stack).watch == run


def test_a_folder_that_holds_a_run_is_meant(run: Run) -> None:
    shutil.copytree(run.path, "my-run")
    assert find_source("my-run") == Path("my-run")


def test_a_label_may_look_like_a_path_where_nothing_lies(run: Run, tmp_path: Path) -> None:
    for label in ("gpt/lr-3e-4", "../elsewhere", "mine.llmprof"):
        run.rename(label)
        assert find_source(label) == run.path
        assert llmprof.open(label).path == run.path
        with ExitStack() as stack:
            assert find_beside_others(label, stack).watch == run
    shutil.copytree(run.path, "mine.llmprof")
    assert find_source("mine.llmprof") == Path("mine.llmprof")
    assert find_source("not/there") == Path("not/there")


@pytest.mark.parametrize("label", ["-x", "--help", "last", "my-run", "a/b"])
def test_what_a_command_is_given_to_mean_a_run(run: Run, label: str) -> None:
    run.rename(label)
    write_loop(RunStore().root).rename("a newer one")
    assert RunStore().find(run.called) == run
    assert (run.called == label) == (label in ("my-run", "a/b"))
    assert not run.called.startswith("-")


@pytest.mark.parametrize("command", ["attach", "stop"])
def test_a_command_that_takes_names_says_which_take_files(
    run: Run, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pack(run, Path("a b.llmprof"))
    assert main([command, "a b.llmprof"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        f"llmprof: a b.llmprof is a path, and `llmprof {command}` takes the name"
    )
    assert "`llmprof screen 'a b.llmprof'` shows" in said
    assert main([command, "other"]) == 2
    assert "no run is called 'other'" in capsys.readouterr().err


def test_a_packed_file_that_is_not_there_is_no_name(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "gone.llmprof"]) == 2
    assert capsys.readouterr().err == "llmprof: gone.llmprof: there is no such file\n"


def test_only_files_that_are_there_are_said_to_be_kept(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """A packed or redacted run may have left them behind."""
    case = SimpleNamespace(
        memory_timeline=SimpleNamespace(snapshot="snapshot-0.pickle"),
        kernels=SimpleNamespace(trace="trace-0.json.gz"),
    )
    trace = run.artifacts / "trace-0.json.gz"
    trace.touch()
    _name_kept(cast("RunView", SimpleNamespace(cases=[case])), run.path)
    assert capsys.readouterr().err == f"kept {trace}\n"
