"""Where runs live: names, listing, lock, artifacts."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from llmprof.core.store import lock
from llmprof.core.store.files import JOURNAL, exit_file
from llmprof.core.store.lock import Holder
from llmprof.core.store.opening import ended, opened_at
from llmprof.core.system.atomic import write_file
from llmprof.core.system.boot import host_name
from llmprof.core.system.homes import state_home
from llmprof.core.system.text import clean

if TYPE_CHECKING:
    from llmprof.core.state.view import RunView
    from llmprof.core.system.processes import ProcessState

RunStatus = Literal["running", "complete", "stopped", "interrupted", "failed", "empty"]

NEWEST = "last"  # as a name: the newest run of all
QUIET_S = 120.0  # an engine elsewhere whose journal has not grown for so long is gone
BEATS_S = 15.0  # a loop that says nothing for so long is gone, where there are no locks


class RunNotFound(LookupError):
    """No run, or more than one, answers to a name; its text is one line for the user."""


class NotOurs(OSError):
    """A run that is not ended from here; its text is one line that says why and what to do."""


class RunElsewhere(NotOurs):
    """A run whose engine can't be reached from here; its text is one line that says where it is."""


class Run(msgspec.Struct, frozen=True):
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

    @property
    def called(self) -> str:
        """What a command is given to mean it: its label, or its id where that means other things.

        A newer run of the same label is meant by it.
        """
        label = self.label
        return self.id if label.startswith("-") or label == NEWEST else label

    def rename(self, label: str) -> None:
        """Give it a name of at most 200 printable characters; empty takes it away.

        Raises OSError; the name that it had stays then.
        """
        self.path.stat()  # one that was removed must not come back
        write_file(self.path / "label", clean(label, 200))

    def delete(self) -> None:
        """Remove the folder. Raises RuntimeError while an engine or a training writes to it."""
        if self.is_loop and self.alive():
            raise RuntimeError(f"the training of run {self.id} still goes on{self.place}")
        if self.alive():
            raise RuntimeError(f"run {self.id} is still running{self.place}; stop it first")
        shutil.rmtree(self.path)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run as its engine.

        Raises BlockingIOError when another engine has it, another OSError where there are no locks.
        """
        if self._alive_elsewhere():
            raise BlockingIOError(f"run {self.id} is going on{self.place}")
        with lock.hold(self.lock_file):
            yield

    @property
    def place(self) -> str:
        """Where its engine is, as words that begin with a blank; "" where it is here or nowhere."""
        who = self.holder()
        return f" {who.place}" if who is not None and who.place else ""

    def holder(self) -> Holder | None:
        """The engine that holds the run, None when none does or one has only just taken it."""
        return lock.holder(self.lock_file) if self.alive() else None

    def engine_pid(self) -> int | None:
        """Process id, where it runs, of the engine that holds the run; None when none does."""
        who = self.holder()
        return None if who is None else who.pid

    def process_state(self, pid: int, node: str) -> ProcessState:
        """What became of one of its processes; those that cannot be seen from here go on."""
        from llmprof.core.system.processes import process_state  # not needed for the first frame

        state = process_state(pid) if node == host_name() else "going"
        if state == "going":
            return state
        who = self.holder()
        return state if who is not None and not who.place else "going"

    def alive(self) -> bool:
        """Whether an engine holds the run, here or, as far as can be seen, elsewhere."""
        return lock.held(self.lock_file) or self._alive_elsewhere() or self._beats()

    @property
    def is_loop(self) -> bool:
        """Whether it is someone's own training, tracked: not ours to stop or to resume."""
        who = lock.holder(self.lock_file)
        return who is not None and who.loop

    def stop(self, *, force: bool = False) -> bool:
        """Ask the engine to stop and journal what there is (force: at once); False if none.

        Raises NotOurs for a tracked loop, RunElsewhere for an engine of another machine or
        container, OSError where it may not be signalled.
        """
        who = self.holder()
        if who is None:
            return False
        if who.loop:
            raise NotOurs(
                f"run {self.id} is a training loop that llmprof only watches (pid {who.pid}"
                f"{self.place}): end the training itself"
            )
        if who.place:
            raise RunElsewhere(f"run {self.id} is going on {who.place}: stop it there")
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            if not lock.has_open(who.pid, self.lock_file):  # the number is another process's here
                raise RunElsewhere(
                    f"run {self.id} is going on in another container or on another machine: "
                    "stop it there"
                )
            os.kill(who.pid, signal.SIGTERM if not force else signal.SIGQUIT)
        return True

    @property
    def lock_file(self) -> Path:
        """Held by whoever writes the run."""
        return self.path / "lock"

    def _alive_elsewhere(self) -> bool:
        """Whether an engine of another machine, whose lock may not be seen here, still writes."""
        who = lock.holder(self.lock_file)
        if who is None or who.local:
            return False
        for path in (self.journal, self.lock_file):
            with contextlib.suppress(OSError):
                return time.time() - path.stat().st_mtime < QUIET_S and not self._ended(path)
        return False

    def _beats(self) -> bool:
        """Whether a tracked loop still writes; looked at where its lock can't tell."""
        who = lock.holder(self.lock_file)
        if who is None or not who.loop or not who.local or not who.unlocked:
            return False
        with contextlib.suppress(OSError):
            age_s = time.time() - self.journal.stat().st_mtime
            return age_s < BEATS_S and not self._ended(self.journal)
        return False

    def _ended(self, path: Path) -> bool:
        """Whether a last word was written, or an exit code. Raises OSError."""
        code = self.path / exit_file(0, 0)
        return ended(path) or (code.is_file() and code.stat().st_size > 0)

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
        self.root = root if root is not None else state_home() / "runs"
        self._opened: dict[str, int] = {}  # when, of runs that were listed before

    def create(
        self, experiment: str, now: datetime | None = None, *, need_lock: bool = True
    ) -> Run:
        """A new empty run named by local time and experiment. Raises OSError."""
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
            if need_lock:
                lock.try_locks(path, path / "lock")
            return Run(path)
        raise FileExistsError(stem)

    def going(self) -> tuple[Run, ...]:
        """The runs that an engine holds, the one started last first."""
        return tuple(run for run in self.list() if run.alive())

    def list(self) -> list[Run]:
        """All runs, the one started last first.

        A name that can't be shown as it is was never given here.
        """
        try:
            entries = [entry for entry in self.root.iterdir() if not entry.name.startswith(".")]
            folders = [each for each in entries if clean(each.name) == each.name and each.is_dir()]
        except OSError:
            return []
        runs = [Run(folder) for folder in folders if (folder / "artifacts").is_dir()]
        return sorted(runs, key=lambda run: (self._started(run), run.id), reverse=True)

    def newest_loop(self) -> Run | None:
        """The tracked loop that goes on and began last; None where none does."""
        try:
            locks = [path for path in self.root.glob("*/lock") if lock.held(path)]
        except OSError:
            return None
        going = [Run(path.parent) for path in locks]
        loops = [run for run in going if run.is_loop]
        return max(loops, key=lambda run: (self._started(run), run.id), default=None)

    def _started(self, run: Run) -> int:
        """Nanoseconds since the epoch at which a run began; its folder's age before it did."""
        if run.id not in self._opened:
            found = opened_at(run.journal)
            if found is None:
                with contextlib.suppress(OSError):
                    return run.path.stat().st_mtime_ns
                return 0
            self._opened[run.id] = found
        return self._opened[run.id]

    def find(self, name: str | None) -> Run:
        """The run with this id, else the newest with this label, else the one that begins so.

        None or "last": the newest of all.
        Raises RunNotFound.
        """
        runs = self.list()
        if not runs:
            raise RunNotFound(f"no runs in {self.root}")
        if name is None or name == NEWEST:
            return next((run for run in runs if run.journal.is_file()), runs[0])
        exact = [run for run in runs if run.id == name]
        exact = exact or [run for run in runs if run.label == name][:1]
        found = exact or [run for run in runs if run.id.startswith(name)]
        if not found:
            raise RunNotFound(f"no run is called {clean(name, 80)!r}; see `llmprof runs`")
        if len(found) > 1:
            names = ", ".join(run.id for run in found[:4])
            raise RunNotFound(f"{clean(name, 80)!r} could be {names}; give more of its id")
        return found[0]

    def has_label(self, name: str) -> bool:
        """Whether a run was given this name."""
        return any(run.label == name for run in self.list())

    def find_to_follow(self, name: str | None) -> Run:
        """The run of a name; without one the newest that goes on, else the newest of all.

        Raises RunNotFound.
        """
        going = self.going() if name is None else ()
        return going[0] if going else self.find(name)


def wait_started(
    run: Run, exit_code: Callable[[], int | None] = lambda: None, seconds: float = 10.0
) -> bool:
    """Wait until an engine holds the run or has ended; False when neither came.

    exit_code gives the engine's, None while it lives.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if run.alive() or exit_code() is not None:
            return True
        time.sleep(0.02)
    return False
