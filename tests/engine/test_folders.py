"""What becomes of a run whose folder has no locks, or goes away."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from llmprof.core.store.journal import JournalGone, JournalWriter
from llmprof.core.store.run import RunStore
from tests.builders.handmade import experiment, opening, write
from tests.engine.runs import (
    ENDLESS,
    SMALL,
    alive,
    engine_family,
    llmprof,
    measuring,
    newest,
    started,
    wait_view,
)
from tests.waiting import wait_for

NO_LOCKS = """
import errno, fcntl, os
def refuse(fd, operation):
    raise OSError(errno.{name}, os.strerror(errno.{name}))
fcntl.flock = refuse
"""


def without_locks(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str = "ENOLCK") -> None:
    """What is started from now on sees a file system that has no flock."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NO_LOCKS.format(name=name))
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")


@pytest.mark.parametrize("name", ["ENOLCK", "ENOSYS", "EOPNOTSUPP"])
@pytest.mark.parametrize("how", [(), ("--detach",), ("--dry-run",)])
def test_a_file_system_without_locks_is_one_line_and_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, how: tuple[str, ...]
) -> None:
    without_locks(tmp_path / "site", monkeypatch, name)
    done = llmprof(tmp_path, "run", *SMALL, *how)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert os.strerror(getattr(errno, name)) in line
    assert "set LLMPROF_HOME" in line
    assert not list((tmp_path / "runs").glob("*"))


@pytest.mark.parametrize("how", [(), ("--detach",)])
def test_a_run_that_cannot_be_locked_any_more_is_kept_and_the_reason_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: tuple[str, ...]
) -> None:
    run = RunStore(tmp_path / "runs").create("carried")
    write(run.journal, opening(experiment())[:2])
    without_locks(tmp_path / "site", monkeypatch)
    done = llmprof(tmp_path, "resume", *how)
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].endswith("set LLMPROF_HOME to a folder on a local disk")
    assert run.journal.exists()


def test_a_run_whose_folder_is_removed_ends_by_itself(tmp_path: Path) -> None:
    with started(tmp_path, "run", *SMALL, *ENDLESS) as process:
        wait_view(tmp_path, measuring)
        run = newest(tmp_path)
        family = engine_family(run)
        shutil.rmtree(run.path)
        wait_for(lambda: not alive(family), "the end of its processes")
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "the run's folder was removed while it went on" in errors.splitlines()[-1]
    assert json.loads(llmprof(tmp_path, "runs", "--json").stdout) == []


def test_a_detached_run_whose_folder_is_removed_ends_while_torch_loads(tmp_path: Path) -> None:
    assert llmprof(tmp_path, "run", *SMALL, *ENDLESS, "--detach").returncode == 0
    family = engine_family(newest(tmp_path))
    shutil.rmtree(newest(tmp_path).path)
    wait_for(lambda: not alive(family), "the end of its processes")


def test_a_journal_is_gone_when_it_was_removed_or_moved(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "journal")
    writer.check()
    moved = (tmp_path / "journal").rename(tmp_path / "elsewhere")
    with pytest.raises(JournalGone):
        writer.check()
    moved.rename(tmp_path / "journal")
    writer.check()
    (tmp_path / "journal").unlink()
    (tmp_path / "journal").write_bytes(b"another's")
    with pytest.raises(JournalGone):
        writer.check()
    writer.close()
