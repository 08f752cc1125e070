"""Runs steps under a clock and sends them on: warm-up and measured steps are the same step."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from llmprof.core import events as ev
from llmprof.core.spec.case import PHASES, Case
from llmprof.core.stats import stopping
from llmprof.core.worker.clock import PhaseClock, StepTimes, by_phase
from llmprof.core.worker.job import Job
from llmprof.core.worker.stepper import Stepper

FLUSH_S = 0.05


class StopRule:
    """Decides after each step whether its kind of step has been run often enough."""

    def __init__(self, case: Case, *, warmup: bool) -> None:
        self._case = case
        self._warmup = warmup
        self._totals: list[float] = []
        self._started = time.monotonic()

    def take(self, total_ms: float) -> str | None:
        """Note a step; why no more are needed, where that is decided by the steps."""
        case, elapsed = self._case, time.monotonic() - self._started
        self._totals.append(total_ms)
        if self._warmup:
            if not case.warmup_auto:
                return None
            return stopping.warmup_stop(self._totals, elapsed, case.warmup_steps)
        if case.target_percent is None:
            return None
        return stopping.measure_stop(self._totals, elapsed, case.target_percent, case.measure_steps)


class StepWriter:
    """Sends steps to the engine between steps, several at a time when they are short."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._waiting: list[ev.Event] = []
        self._flushed = time.monotonic()
        self._cuda = job.device if job.device.type == "cuda" else None
        self.warmed = 0  # warm-up steps so far

    def write(self, index: int, times: StepTimes, loss: Tensor | None, *, warmup: bool) -> None:
        """Take a step that has ended; its loss is read here, after the clock has stopped."""
        value = None if loss is None else loss.item()
        self.warmed += warmup
        self._waiting.append(
            ev.StepDone(
                case=self._job.index,
                index=index,
                warmup=warmup,
                start_ns=times.start_ns,
                wall_ms=times.wall_ms,
                total_ms=math.fsum(times.device_ms),
                device_ms=self._by_phase(times.device_ms),
                host_ms=self._by_phase(times.host_ms),
                loss=value if value is not None and math.isfinite(value) else None,
                loss_reason=not_finite(value),
                allocated_bytes=(
                    None if self._cuda is None else torch.cuda.memory_allocated(self._cuda)
                ),
            )
        )
        if time.monotonic() - self._flushed >= FLUSH_S:
            self.flush()

    def _by_phase(self, times: tuple[float, ...]) -> tuple[float | None, ...]:
        """Times as events have them; a loss that the forward computed is no phase of its own."""
        found = by_phase(self._job.case.sequence, times)
        if not self._job.loss_inside:
            return found
        return tuple(None if p == "loss" else t for p, t in zip(PHASES, found, strict=True))

    def flush(self) -> None:
        """Send what waits."""
        if self._waiting:
            self._job.emit(*self._waiting)
            self._waiting.clear()
        self._flushed = time.monotonic()


@contextmanager
def quiet_gc() -> Iterator[None]:
    """No garbage collection while steps are timed."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def one_step(
    stepper: Stepper, clock: PhaseClock, steps: StepWriter, index: int, *, warmup: bool
) -> float:
    """Run and send one step; its total, milliseconds."""
    clock.start()
    loss = stepper.step(clock.edge)
    times = clock.stop()
    steps.write(index, times, loss, warmup=warmup)
    return math.fsum(times.device_ms)


def run_steps(
    job: Job, stepper: Stepper, clock: PhaseClock, steps: StepWriter, *, warmup: bool
) -> str | None:
    """Run a case's warm-up or measured steps; why they ended, where the steps decided it."""
    rule = StopRule(job.case, warmup=warmup)
    count = job.case.warmup_steps if warmup else job.case.measure_steps
    for index in range(count):
        reason = rule.take(one_step(stepper, clock, steps, index, warmup=warmup))
        if reason is not None:
            return reason
    return None


def not_finite(value: float | None) -> str | None:
    """Why a loss is no number: "nan" or "inf"; None for one that is, or for no loss."""
    if value is None or math.isfinite(value):
        return None
    return "nan" if math.isnan(value) else "inf"
