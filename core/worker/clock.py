"""Phase clocks: device events on CUDA, the host clock on the CPU."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import Protocol

import torch

from llmprof.core.spec.case import PHASES, Phase

_MS = 1e-6  # nanoseconds to milliseconds


@dataclass(frozen=True)
class StepTimes:
    """One step: phase times in milliseconds in the order in which the step went through them."""

    start_ns: int
    wall_ms: float
    device_ms: tuple[float, ...]
    host_ms: tuple[float, ...]


class PhaseClock(Protocol):
    """start(), the step calling edge(0…n), stop(); nothing else happens on the timed path."""

    reached: int  # the last edge that was marked: tells the phase in which a step failed

    def start(self) -> None:
        """Drain the device and start the wall clock."""

    def edge(self, index: int) -> None:
        """Mark a phase edge."""

    def resume(self) -> None:
        """The phase after the last edge begins only now: what was done since is no phase's."""

    def stop(self) -> StepTimes:
        """Wait for the device and read the times."""


class HostClock:
    """For the CPU: an edge is a reading of the host clock."""

    def __init__(self, phases: int) -> None:
        self._at = [0] * (phases + 1)
        self._resumed: dict[int, int] = {}
        self._start = 0
        self.reached = 0

    def start(self) -> None:
        """Start the wall clock."""
        self._start = time.perf_counter_ns()

    def edge(self, index: int) -> None:
        """Read the host clock."""
        self._at[index] = time.perf_counter_ns()
        self.reached = index

    def resume(self) -> None:
        """Read the host clock once more, for the phase's start."""
        self._resumed[self.reached] = time.perf_counter_ns()

    def stop(self) -> StepTimes:
        """The times of the step."""
        end = time.perf_counter_ns()
        spans = _spans(self._at, self._resumed)
        return StepTimes(self._start, (end - self._start) * _MS, spans, spans)


class CudaClock:
    """For CUDA: an edge records a device event and reads the host clock.

    Events are made once and read after the step's synchronisation, so a step allocates nothing.
    """

    def __init__(self, phases: int, device: torch.device) -> None:
        self._device = device
        self._events = [
            torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            for _ in range(phases + 1)
        ]
        self._resumptions: dict[int, torch.cuda.Event] = {}
        self._at = [0] * (phases + 1)
        self._resumed: dict[int, int] = {}
        self._start = 0
        self.reached = 0

    def start(self) -> None:
        """Drain the device and start the wall clock."""
        torch.cuda.synchronize(self._device)
        self._start = time.perf_counter_ns()

    def edge(self, index: int) -> None:
        """Record a device event; host time is read before it, so that its cost is the next's."""
        self._at[index] = time.perf_counter_ns()
        self.reached = index
        self._events[index].record()

    def resume(self) -> None:
        """Record an event once more, for the phase's start."""
        if self.reached not in self._resumptions:
            made = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            self._resumptions[self.reached] = made
        self._resumed[self.reached] = time.perf_counter_ns()
        self._resumptions[self.reached].record()

    def stop(self) -> StepTimes:
        """Wait for the device and read the events."""
        torch.cuda.synchronize(self._device)
        end = time.perf_counter_ns()
        device = tuple(
            self._resumptions.get(at, before).elapsed_time(after)
            for at, (before, after) in enumerate(itertools.pairwise(self._events))
        )
        host = _spans(self._at, self._resumed)
        return StepTimes(self._start, (end - self._start) * _MS, device, host)


def phase_clock(device: torch.device, phases: tuple[Phase, ...]) -> PhaseClock:
    """The clock of a device for a step of these phases."""
    count = len(phases)
    return CudaClock(count, device) if device.type == "cuda" else HostClock(count)


def by_phase(phases: tuple[Phase, ...], times: tuple[float, ...]) -> tuple[float | None, ...]:
    """Times of a step's phases laid out as spec.PHASES, None where the step has no such phase.

    A phase that the step went through several times, once a micro-batch, has the sum.
    """
    of_step: dict[Phase, float] = {}
    for phase, time_ms in zip(phases, times, strict=True):
        of_step[phase] = of_step.get(phase, 0.0) + time_ms
    return tuple(of_step.get(phase) for phase in PHASES)


def _spans(at: list[int], resumed: dict[int, int]) -> tuple[float, ...]:
    return tuple(
        (after - resumed.get(index, before)) * _MS
        for index, (before, after) in enumerate(itertools.pairwise(at))
    )
