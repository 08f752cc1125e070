"""When each step and each of its phases ran, on the host's clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llmprof.core.kernels import range_names
from llmprof.core.kernels.columns import EventColumns, Int64, Kind

Int16 = NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class Windows:
    """Spans in nanoseconds: steps of shape (n, 2), phases of shape (n, S, 2).

    sequence: the S phases as a step goes through them, which may be once a micro-batch.
    """

    sequence: tuple[str, ...]
    step_spans: Int64
    phase_spans: Int64

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases that there are, each once."""
        return tuple(dict.fromkeys(self.sequence))

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.step_spans)

    @property
    def wall_ns(self) -> Int64:
        """Wall time of each step, nanoseconds."""
        wall: Int64 = self.step_spans[:, 1] - self.step_spans[:, 0]
        return wall

    def place(self, times: Int64) -> tuple[Int16, Int16]:
        """Step and phase in which each time lies, -1 for outside."""
        return _inside(times, self.step_spans), self._phase_of(times)

    def last(self, steps: int) -> Windows:
        """The last steps only."""
        return Windows(self.sequence, self.step_spans[-steps:], self.phase_spans[-steps:])

    def slot_of(self, times: Int64) -> Int64:
        """Position in `sequence` of the phase in which each time lies, -1 for outside."""
        if not self.steps or not self.sequence:
            return np.full(len(times), -1, np.int64)
        slot = _inside(times, self.phase_spans.reshape(-1, 2)).astype(np.int64)
        return np.where(slot < 0, -1, slot % len(self.sequence))

    def _phase_of(self, times: Int64) -> Int16:
        slot = self.slot_of(times)
        phase = np.array([*(self.phases.index(name) for name in self.sequence), -1], np.int16)
        return phase[slot]  # the last for -1


def from_marks(columns: EventColumns, phases: Sequence[str]) -> Windows:
    """Windows from the ranges that the worker put around steps and phases.

    Raises ValueError when a step lacks a phase, or one is not inside its step and after the
    phase before: its figures would be another's.
    """
    steps = _spans(columns, range_names.STEP_RANGE)
    spans = np.zeros((len(steps), len(phases), 2), np.int64)
    for phase in dict.fromkeys(phases):
        slots = [at for at, name in enumerate(phases) if name == phase]
        found = _spans(columns, range_names.PHASE_RANGE + phase)
        if len(found) != len(steps) * len(slots):
            raise ValueError(f"{len(steps)} steps were profiled but {len(found)} times {phase}")
        spans[:, slots] = found.reshape(len(steps), len(slots), 2)
    _check_order(phases, steps, spans)
    return Windows(tuple(phases), steps, spans)


def _check_order(phases: Sequence[str], steps: Int64, spans: Int64) -> None:
    """Raises ValueError unless every edge comes after the one before."""
    edges = spans.reshape(len(steps), 2 * len(phases))
    edges = np.concatenate([steps[:, :1], edges, steps[:, 1:]], axis=1)
    wrong = np.argwhere(np.diff(edges, axis=1) < 0)
    if len(wrong):
        step, at = wrong[0].tolist()
        phase = phases[min(at // 2, len(phases) - 1)] if phases else "the step"
        raise ValueError(f"{phase} of profiled step {step + 1} is not inside it and in order")
    if len(steps) > 1 and (steps[1:, 0] < steps[:-1, 1]).any():
        raise ValueError("a profiled step began before the one before it ended")


def _spans(columns: EventColumns, name: str) -> Int64:
    if name not in columns.names:
        return np.zeros((0, 2), np.int64)
    which = (columns.name == columns.names.index(name)) & (columns.kind == Kind.OP)
    rows = np.flatnonzero(which)
    rows = rows[np.argsort(columns.start[rows], kind="stable")]
    return np.stack([columns.start[rows], columns.end[rows]], axis=-1)


def _inside(times: Int64, spans: Int64) -> Int16:
    """Which of the ordered spans, that do not overlap, holds each time; -1 for none."""
    if not len(spans):
        return np.full(len(times), -1, np.int16)
    at = np.searchsorted(spans[:, 0], times, side="right") - 1
    held = (at >= 0) & (times < spans[np.maximum(at, 0), 1])
    return np.where(held, at, -1).astype(np.int16)
