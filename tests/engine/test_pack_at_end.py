"""A run brings itself home: one file at its end, also when its machine is taken away."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from llmprof.core.store.pack import open_view
from tests.engine.runs import (
    ENDLESS,
    SMALL,
    llmprof,
    measuring,
    newest,
    started,
    wait_view,
)
from tests.waiting import wait_for


def test_a_finished_run_is_in_one_file(tmp_path: Path) -> None:
    target = tmp_path / "home.llmprof"
    done = llmprof(tmp_path, "run", *SMALL, "--mode=forward", "--measure-steps=2",
                   "--pack", str(target))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"packed {target}" in done.stderr
    view = open_view(target)
    assert view.outcome == "complete"
    assert [state.status for state in view.cases] == ["ok"]
    again = tmp_path / "again.llmprof"
    assert llmprof(tmp_path, "resume", "--pack", str(again)).returncode == 0
    assert open_view(again).outcome == "complete"


def test_a_preempted_run_packs_itself(tmp_path: Path) -> None:
    """A machine that is taken away sends SIGTERM to everything on it, the front end first."""
    target = tmp_path / "home.llmprof"
    with started(tmp_path, "run", *SMALL, *ENDLESS, "--pack", str(target)) as process:
        wait_view(tmp_path, measuring)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 143
    assert f"packed {target}" in said
    view = open_view(target)
    assert view.outcome == "stopped"
    assert len(view.cases[0].measured) > 0


def test_an_engine_without_a_front_end_packs_itself(tmp_path: Path) -> None:
    target = tmp_path / "home.llmprof"
    done = llmprof(tmp_path, "run", *SMALL, *ENDLESS, "--detach", "--pack", str(target))
    assert done.returncode == 0, done.stderr
    wait_view(tmp_path, measuring)
    run = newest(tmp_path)
    pid = run.engine_pid()
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not run.alive())
    assert open_view(target).outcome == "stopped"


def test_what_a_killed_engine_left_is_packed_by_its_front_end(tmp_path: Path) -> None:
    target = tmp_path / "home.llmprof"
    with started(tmp_path, "run", *SMALL, *ENDLESS, "--pack", str(target)) as process:
        wait_view(tmp_path, measuring)
        pid = newest(tmp_path).engine_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"packed {target}" in said
    view = open_view(target)
    assert view.outcome is None
    assert len(view.cases[0].measured) > 0


def test_what_cannot_be_packed_is_said_before_or_after(tmp_path: Path) -> None:
    done = llmprof(tmp_path, "run", *SMALL, "--pack", str(tmp_path / "nowhere" / "x.llmprof"))
    assert done.returncode == 2
    assert "there is no folder" in done.stderr
    assert llmprof(tmp_path, "run", *SMALL, "--dry-run", "--pack", "x.llmprof").returncode == 2
    folder = tmp_path / "gone"
    folder.mkdir()
    target = folder / "x.llmprof"
    with started(tmp_path, "run", *SMALL, *ENDLESS, "--pack", str(target)) as process:
        wait_view(tmp_path, measuring)
        folder.rmdir()
        folder.write_text("a file in its place")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the run could not be packed" in said
    assert newest(tmp_path).journal.is_file()
