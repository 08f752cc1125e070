"""How the screen starts runs: through an engine that waits with torch already loaded."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from llmprof.core.system.modules_by_name import REPLAYER

if TYPE_CHECKING:
    from llmprof.core.engine.client import Engine
    from llmprof.core.spec.experiment import Experiment
    from llmprof.core.store.run import Run


class CannotStart(RuntimeError):
    """A run that was not started; its text is one line for the user."""


class Starter(Protocol):
    """Starts the process that writes a run's journal."""

    def warm(self) -> None:
        """Prepare what makes the next start quick; called after the first frame, in a thread."""

    def start(
        self, run: Run, experiment: Experiment, command: tuple[str, ...],
        resume: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        """Start measuring into a run, or some cases of one that is there.

        Raises CannotStart or OSError.
        """

    def exit_code(self) -> int | None:
        """Exit code of the engine started last, None while it lives or when there is none."""

    def dismiss(self) -> None:
        """End what waits and was never used."""


class EngineStarter:
    """Keeps one idle engine; a started one outlives the screen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: Engine | None = None
        self._running: Engine | None = None
        self._ended: list[Engine] = []
        self._closed = False

    def warm(self) -> None:
        """Start an idle engine unless one waits."""
        from llmprof.core.engine.client import Engine  # not needed for the first frame

        with self._lock:
            if not self._closed and (self._idle is None or self._idle.poll() is not None):
                self._idle = Engine()

    def start(
        self, run: Run, experiment: Experiment, command: tuple[str, ...],
        resume: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        """Hand the plan to the waiting engine, or to a new one. Raises CannotStart or OSError."""
        from llmprof.core.engine.client import Engine, Plan  # not needed for the first frame

        if importlib.util.find_spec("torch") is None:
            raise CannotStart("torch is not installed, and measuring needs it: pip install torch")
        plan = Plan(run_dir=str(run.path), experiment=experiment, command=command, resume=resume)
        with self._lock:
            engine, self._idle = self._idle, None
            if engine is not None and engine.poll() is None:
                try:
                    engine.run(plan)
                except BrokenPipeError:
                    engine = None
            else:
                engine = None
            if engine is None:
                engine = Engine()
                engine.run(plan)
            if self._running is not None:
                self._ended.append(self._running)
            self._running = engine

    def exit_code(self) -> int | None:
        """Exit code of the engine started last, None while it lives or when there is none."""
        for engine in self._ended:
            engine.poll()  # no zombies
        return None if self._running is None else self._running.poll()

    def dismiss(self) -> None:
        """End the idle engine and what it has begun to load; it has nothing to lose."""
        with self._lock:
            self._closed = True
            engine, self._idle = self._idle, None
        if engine is not None:
            with contextlib.suppress(OSError):
                os.killpg(engine.pid, signal.SIGKILL)  # it leads a group of its own
            with contextlib.suppress(OSError):
                engine.dismiss()
            engine.wait()


class NoStarter:
    """Starts nothing, where what it measured would not last."""

    def __init__(self, why: str) -> None:
        self._why = why

    def warm(self) -> None:
        """Nothing needs to be prepared."""

    def start(
        self, run: Run, experiment: Experiment, command: tuple[str, ...],
        resume: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        """Raises CannotStart, always."""
        raise CannotStart(self._why)

    def exit_code(self) -> int | None:
        """None: there is no engine."""

    def dismiss(self) -> None:
        """Nothing waits."""


class ReplayStarter:
    """Replays a recording, whatever is asked for; ends with the screen."""

    def __init__(self, recording: Path, speed: float) -> None:
        self._recording, self._speed = recording, speed
        self._processes: list[subprocess.Popen[bytes]] = []

    def warm(self) -> None:
        """Nothing needs to be prepared."""

    def start(
        self, run: Run, experiment: Experiment, command: tuple[str, ...],
        resume: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        """Replay into the run. Raises OSError."""
        words = [str(self._recording), str(run.path), str(self._speed)]
        process = subprocess.Popen(
            [sys.executable, "-m", REPLAYER, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._processes.append(process)

    def exit_code(self) -> int | None:
        """Exit code of the newest replay, None while it lives."""
        return self._processes[-1].poll() if self._processes else None

    def dismiss(self) -> None:
        """Close the replays' input, which ends them."""
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)
