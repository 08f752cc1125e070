"""Where runs live: names, listing, lock, artifacts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import platformdirs

from llmprof.core.system.text import clean

if TYPE_CHECKING:
    from llmprof.core.state.view import RunView

RunStatus = Literal["running", "complete", "stopped", "interrupted", "failed", "empty"]

JOURNAL = "journal.jsonl"
LOCK_PATIENCE_S = 1.0


class RunNotFound(LookupError):
    """No run, or more than one, answers to a name; its text is one line for the user."""


@dataclass(frozen=True)
class Run:
    """One run's folder: journal, logs, artifacts, lock."""

    path: Path

    @property
    def id(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def journal(self) -> Path:
        """The append-only file."""
        return self.path / JOURNAL

    @property
    def log(self) -> Path:
        """What workers and engine printed."""
        return self.path / "output.log"

    @property
    def artifacts(self) -> Path:
        """Folder for traces, snapshots and pictures."""
        return self.path / "artifacts"

    @property
    def label(self) -> str:
        """The name a person gave it, or its id."""
        try:
            return clean((self.path / "label").read_text("utf-8", "replace"), 200) or self.id
        except OSError:
            return self.id

    def rename(self, label: str) -> None:
        """Give it a name of at most 200 printable characters; empty takes it away.

        Raises OSError; the name that it had stays then.
        """
        draft = self.path / f".label.{os.getpid()}"
        try:
            draft.write_text(clean(label, 200), "utf-8")
            draft.replace(self.path / "label")
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)

    def delete(self) -> None:
        """Remove the folder. Raises RuntimeError while an engine writes to it."""
        if self.alive():
            raise RuntimeError(f"run {self.id} is still running; stop it first")
        shutil.rmtree(self.path)

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Hold the run as its engine. Raises BlockingIOError when another engine has it."""
        return _locked(self.path / "lock")

    def engine_pid(self) -> int | None:
        """Process id of the engine that holds the run, None when none does."""
        if not self.alive():
            return None
        try:
            return int((self.path / "lock").read_bytes()[:20])
        except (OSError, ValueError):
            return None  # it has only just taken the lock

    def alive(self) -> bool:
        """Whether an engine holds the run."""
        try:
            with (self.path / "lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def stop(self, *, force: bool = False) -> bool:
        """Ask the engine to stop and journal what there is (force: at once); False if none."""
        pid = self.engine_pid()
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM if not force else signal.SIGQUIT)
        return True

    def status(self, view: RunView) -> RunStatus:
        """Status from what was read of the journal and from the lock."""
        if self.alive():
            return "running"
        if view.outcome is not None:
            return view.outcome
        return "interrupted" if view.events else "empty"


class RunStore:
    """All runs of one folder, by default the user's state folder or $LLMPROF_HOME."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root if root is not None else default_home() / "runs"

    def create(self, experiment: str, now: datetime | None = None) -> Run:
        """A new empty run named by time and experiment. Raises OSError."""
        moment = (now or datetime.now()).strftime("%Y%m%d-%H%M%S")
        stem = f"{moment}-{re.sub(r'[^A-Za-z0-9.]+', '-', experiment).strip('-') or 'run'}"
        self.root.mkdir(parents=True, exist_ok=True)
        for attempt in range(1000):
            path = self.root / (stem if not attempt else f"{stem}-{attempt + 1}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            (path / "artifacts").mkdir()
            return Run(path)
        raise FileExistsError(stem)

    def list(self) -> list[Run]:
        """All runs, newest first; a name that can't be shown as it is was never given here."""
        try:
            entries = [entry for entry in self.root.iterdir() if clean(entry.name) == entry.name]
            folders = [entry for entry in entries if entry.is_dir()]
        except OSError:
            return []
        runs = [Run(folder) for folder in folders if (folder / "artifacts").is_dir()]
        return sorted(runs, key=lambda run: run.id, reverse=True)

    def find(self, name: str | None) -> Run:
        """The run with this id, label or unambiguous beginning; None or "last": the newest.

        Raises RunNotFound.
        """
        runs = self.list()
        if not runs:
            raise RunNotFound(f"no runs in {self.root}")
        if name is None or name == "last":
            return next((run for run in runs if run.journal.is_file()), runs[0])
        exact = [run for run in runs if name in (run.id, run.label)]
        found = exact or [run for run in runs if run.id.startswith(name)]
        if not found:
            raise RunNotFound(f"no run is called {clean(name, 80)!r}; see `llmprof runs`")
        if len(found) > 1:
            names = ", ".join(run.id for run in found[:4])
            raise RunNotFound(f"{clean(name, 80)!r} could be {names}; give more of its id")
        return found[0]


def default_home() -> Path:
    """$LLMPROF_HOME, else the user's state folder for llmprof."""
    home = os.environ.get("LLMPROF_HOME")
    return Path(home) if home else Path(platformdirs.user_state_dir("llmprof"))


def wait_started(run: Run, seconds: float = 10.0) -> bool:
    """Wait until an engine holds the run or it has a journal; False when neither came."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if run.alive() or run.journal.exists():
            return True
        time.sleep(0.02)
    return False


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a+b") as file:
        _take(file.fileno())
        file.truncate(0)
        file.write(str(os.getpid()).encode())
        file.flush()
        yield


def _take(fd: int) -> None:
    """Lock it; whoever looks whether it is locked holds it for an instant, so try for a while."""
    deadline = time.monotonic() + LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return
