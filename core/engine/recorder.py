"""Waits for workers, sampler, signals and the owner, and journals what they send."""

from __future__ import annotations

import select
import sys
import time
from pathlib import Path
from typing import Literal

import msgspec

from llmprof.core import events as ev
from llmprof.core.devices.sampler_client import SamplerProcess
from llmprof.core.engine.signals import KILL, Signals
from llmprof.core.engine.workers import Worker
from llmprof.core.store.journal import JournalWriter

RECORDER_POLL_S = 0.5
CHECK_S = 1.0  # between looks whether the journal is still there
STOP_GRACE_S = 2.0
Stopping = Literal["no", "stop", "kill"]


class Recorder:
    """The journal's pen: the one place where an engine waits.

    lifeline says whether an owner holds standard input, whose end stops the run; silence_s is
    how long a worker may say nothing.
    """

    def __init__(self, path: Path, signals: Signals, *, lifeline: bool, silence_s: float) -> None:
        self.stopping: Stopping = "no"
        self.environment: ev.Environment | None = None  # the newest that a worker read
        self._journal = JournalWriter(path)
        self._signals = signals
        self._lifeline = lifeline
        self._silence_s = silence_s
        self._sampler: SamplerProcess | None = None
        self._checked = time.monotonic()
        self._poll = select.poll()
        self._poll.register(signals.fd, select.POLLIN)
        if lifeline:
            self._poll.register(sys.stdin.fileno(), select.POLLIN)

    def append(self, event: ev.Event) -> None:
        """Journal an event of the engine's own."""
        self._journal.append(event)

    def say(self, message: str, level: Literal["info", "warning", "error"]) -> None:
        """Journal a line for whoever watches."""
        self.append(ev.Log(message=message, level=level))

    def fail(self, index: int, failure: ev.Failure) -> None:
        """Journal that a case ended without its figures."""
        self.append(ev.CaseFailed(case=index, failure=failure))

    def start_sampler(self) -> None:
        """Have cards and host sampled from now on."""
        self._sampler = SamplerProcess()
        self._poll.register(self._sampler.fd, select.POLLIN)

    def stop_sampler(self) -> None:
        """End the sampler, if there is one."""
        if self._sampler is not None:
            self._sampler.close()

    def close(self) -> None:
        """Make the journal durable and let go of it."""
        self._journal.close()

    def follow(self, worker: Worker) -> bool:
        """Journal what a worker sends until it ends or parks; whether it was silent too long."""
        overdue = False
        killed_at: float | None = None
        for fd in worker.fds:
            self._poll.register(fd, select.POLLIN)
        try:
            while not worker.ended and not worker.parked:
                self.wait()
                self._take(worker)
                now = time.monotonic()
                if now - worker.heard > self._silence_s and not overdue:
                    overdue, killed_at = True, now
                    worker.ask_where()
                if self.stopping == "kill":
                    worker.kill()
                elif self.stopping == "stop" and killed_at is None:
                    worker.ask_to_stop()
                    killed_at = now
                elif killed_at is not None and now - killed_at > STOP_GRACE_S:
                    worker.kill()
            self._take(worker)
            return overdue
        finally:
            for fd in worker.fds:
                self._poll.unregister(fd)

    def _take(self, worker: Worker) -> None:
        """Journal what has arrived from a worker, noting whether it parked or ended its case."""
        good = []
        for line in worker.read():
            try:
                event = ev.decode(line)
            except (msgspec.DecodeError, ValueError) as error:
                self.say(f"a worker sent what is not an event: {error}", "error")
                continue
            good.append(line)
            if isinstance(event, ev.Environment):
                self.environment = event
            worker.parked |= isinstance(event, ev.Parked)
            worker.finished |= isinstance(event, (ev.CaseDone, ev.CaseFailed))
        if good:
            self._journal.append_lines(b"".join(good))

    def wait(self, seconds: float = RECORDER_POLL_S) -> None:
        """Sleep until something arrives; journal samples, note signals and a lost owner.

        Raises JournalGone where the run's folder was removed: nobody would see what is measured.
        """
        ready = {fd for fd, _ in self._poll.poll(seconds * 1000)}
        if time.monotonic() - self._checked >= CHECK_S:
            self._checked = time.monotonic()
            self._journal.check()
        if self._signals.fd in ready:
            for number in self._signals.drain():
                again = self.stopping != "no"
                self.stopping = "kill" if again or number == KILL else "stop"
        if self._lifeline and sys.stdin.fileno() in ready and self.stopping == "no":
            self._poll.unregister(sys.stdin.fileno())
            self.stopping = "stop"
        if self._sampler is not None:
            if self._sampler.fd in ready:
                self._journal.append_lines(self._sampler.read())
            for event in self._sampler.check():
                self._journal.append(event)
