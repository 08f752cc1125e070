"""Fresh processes from a forkserver that has torch loaded and has never touched the card."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import msgspec

from llmprof.core.system.modules_by_name import PRELOAD

PIPE_BYTES = 1 << 18


def _target(
    request: bytes, events: Connection, lifeline: Connection, turns: Connection, log: str
) -> None:
    # Imported in the worker: the engine's process must stay without torch.
    from llmprof.core.worker.main import run_request

    run_request(request, events, lifeline, turns, log)


class WorkerPool:
    """Starts workers; the first start waits until torch is loaded."""

    def __init__(self) -> None:
        self._context: ForkServerContext = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([PRELOAD])
        self._started: list[Worker] = []

    def warm(self) -> None:
        """Begin to load torch; returns at once. The server dies with this thread's process."""
        os.environ["LLMPROF_ENGINE_PID"] = str(os.getpid())
        forkserver.ensure_running()

    def abandon(self) -> None:
        """Kill the server, so that a start that waits for it fails."""
        pid = getattr(forkserver._forkserver, "_forkserver_pid", None)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_all(self) -> None:
        """Kill every worker that has not ended, and the server."""
        for worker in self._started:
            worker.kill()
        self.abandon()

    def start(self, request: msgspec.Struct, log: str) -> Worker:
        """A worker on a request."""
        events_read, events_write = self._context.Pipe(duplex=False)
        line_read, line_write = self._context.Pipe(duplex=False)
        turns_read, turns_write = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=_target,
            args=(msgspec.json.encode(request), events_write, line_read, turns_read, log),
        )
        process.start()
        for theirs in (events_write, line_read, turns_read):
            theirs.close()
        worker = Worker(process, events_read, line_write, turns_write)
        self._started = [one for one in self._started if not one.closed] + [worker]
        return worker


class Worker:
    """One worker process as its engine sees it."""

    def __init__(
        self, process: BaseProcess, events: Connection, lifeline: Connection, turns: Connection
    ) -> None:
        self._process = process
        self._events = events
        self._lifeline = lifeline
        self._turns = turns
        self._rest = b""
        self.heard = time.monotonic()
        self.parked = False  # it has ended a turn and waits for its next
        self.finished = False  # it has said how its case ended
        self.closed = False
        self._pid = process.pid or 0
        os.set_blocking(events.fileno(), False)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._pid

    @property
    def fds(self) -> tuple[int, int]:
        """Descriptors that become readable: events, and the end of the process."""
        return self._events.fileno(), self._process.sentinel

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return not self._process.is_alive()

    def read(self) -> list[bytes]:
        """Whole event lines that have arrived, newlines kept."""
        data = [self._rest]
        with contextlib.suppress(BlockingIOError):
            while block := os.read(self._events.fileno(), PIPE_BYTES):
                data.append(block)
        if len(data) == 1:
            return []
        self.heard = time.monotonic()
        *lines, self._rest = b"".join(data).split(b"\n")
        return [line + b"\n" for line in lines]

    def give_turn(self) -> None:
        """Let a parked worker go on; its silence counts from now."""
        if not self.parked:
            return
        self.parked = False
        self.heard = time.monotonic()
        with contextlib.suppress(BrokenPipeError):
            os.write(self._turns.fileno(), b".")

    def ask_to_stop(self) -> None:
        """Let it send the steps it has and end."""
        self._signal(signal.SIGTERM)

    def ask_where(self) -> None:
        """Let it say where it is, as far as it can, and end."""
        self._signal(signal.SIGUSR1)

    def kill(self) -> None:
        """End its whole process group now."""
        if not self.closed:
            self._signal(signal.SIGKILL)

    def close(self) -> int:
        """After its end: sweep up its children and give the exit code (-n for signal n)."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self.closed = True
        self._lifeline.close()
        self._turns.close()
        self._process.join(5)
        code = self._process.exitcode
        self._events.close()
        self._process.close()
        return -signal.SIGKILL if code is None else code

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if number == signal.SIGKILL and os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)


def redirect_output(log: Path) -> None:
    """Append what this process and its children print to a log."""
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for standard in (1, 2):
        os.dup2(fd, standard)
    os.close(fd)
