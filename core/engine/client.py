"""Starts the engine process; front ends then only follow its journal."""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import msgspec

from llmprof.core.spec.experiment import Experiment
from llmprof.core.store.lock import REMEDY
from llmprof.core.system.modules_by_name import ENGINE


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is told once, as one JSON line on its standard input."""

    run_dir: str
    experiment: Experiment
    command: tuple[str, ...] = ()
    lifeline: bool = False  # stop when the sender's end of the pipe closes
    only_plan: bool = False  # probe, estimate, measure nothing
    elsewhere: bool = False  # resume also on another machine or with other software
    resume: tuple[int, ...] | None = None  # cases to run of a journal that is already there
    pack: str | None = None  # the file that the run is put into at its end, however it ends


class EngineExit(enum.IntEnum):
    """How an engine process ended; a run of whatever outcome is OK."""

    OK = 0
    FAILED = 1
    NO_PLAN = 2
    HELD = 3  # another engine has the run
    DISK_FULL = 4
    NO_LOCKS = 5  # its file system has none, so that two engines could have a run
    GONE = 6  # the run's folder was removed
    NOT_PACKED = 7  # all else is well


ENGINE_ENDINGS: dict[int, str] = {
    EngineExit.HELD: "another engine has this run",
    EngineExit.DISK_FULL: "the journal could not be written, the disk is full",
    EngineExit.NO_LOCKS: f"the run cannot be locked; {REMEDY}",
    EngineExit.GONE: "the run's folder was removed while it went on",
    EngineExit.NOT_PACKED: "the run could not be packed, and its log says why; `llmprof pack` can",
}


class Engine:
    """An engine process in a session of its own. Idle, with torch loading, until run()."""

    def __init__(self, log: Path | None = None) -> None:
        """Start it; what it prints before it has a run goes to `log`."""
        with open(log or os.devnull, "ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", ENGINE],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def run(self, plan: Plan) -> None:
        """Hand over the plan; with plan.lifeline keep this object alive as long as the run.

        Raises BrokenPipeError when the engine is gone.
        """
        stream = self._stream
        stream.write(msgspec.json.encode(plan) + b"\n")
        stream.flush()
        if not plan.lifeline:
            stream.close()

    def dismiss(self) -> None:
        """End an engine that never got a plan; after run() with a lifeline: let go of it."""
        self._stream.close()

    def kill(self) -> None:
        """End it and what it started, now; the kernel ends its workers with it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def poll(self) -> int | None:
        """Exit code, None while it lives."""
        return self._process.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Exit code once it has ended. Raises subprocess.TimeoutExpired."""
        return self._process.wait(timeout)

    @property
    def _stream(self) -> IO[bytes]:
        if self._process.stdin is None:
            raise BrokenPipeError("the engine takes no plan")
        return self._process.stdin
