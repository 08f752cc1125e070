"""What a worker process is given, and how it answers."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from llmprof.core import events as ev
from llmprof.core.spec.case import Case
from llmprof.core.worker.card import CardSamples
from llmprof.core.worker.clock import PhaseClock
from llmprof.core.worker.request import WorkerRequest


class Job:
    """A case with its device and its way out: events leave on a pipe of their own."""

    def __init__(
        self, request: WorkerRequest, case: Case, device: torch.device, fd: int, turns: int = -1
    ) -> None:
        self.request = request
        self.case = case
        self.index = request.index
        self.device = device
        self.phase: str | None = "start"  # where a failure would have happened
        self.loss_inside = False  # the forward computes the loss: no time is that phase's
        self.own_ms: float | None = None  # from the engine's asking to here, less the context
        self.context_ms: float | None = None  # creating the CUDA context
        self.started = time.monotonic()
        self.cards: CardSamples = ()  # before the context was made, where a probe asks for it
        self._fd = fd
        self._turns = turns

    @property
    def artifacts(self) -> Path:
        """The run's folder for large data."""
        return Path(self.request.run_dir) / "artifacts"

    def emit(self, *events: ev.Event) -> None:
        """Send events to the engine, in order."""
        write_all(self._fd, b"".join(map(ev.encode, events)))

    def wait_turn(self) -> None:
        """Sleep until the engine gives this process its turn. Raises SystemExit when it won't."""
        if not os.read(self._turns, 1):
            raise SystemExit(1)

    @contextlib.contextmanager
    def phase_of(self, clock: PhaseClock) -> Iterator[None]:
        """While steps run: a failure is in the phase that follows the clock's last edge."""
        try:
            yield
        except BaseException:
            phases = self.case.sequence
            self.phase = phases[min(clock.reached, len(phases) - 1)]
            raise


def write_all(fd: int, data: bytes) -> None:
    """Write all of data to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
