"""Steps of one case in columns: compact while a run streams, frozen views for readers."""

from __future__ import annotations

import math
import statistics
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from llmprof.core.events import StepDone
from llmprof.core.spec import PHASES, Phase

_NAN = math.nan


class StepColumns:
    """Append-only; rows already written never change, so views share the arrays."""

    __slots__ = ("allocated", "device", "host", "length", "loss", "start_ns", "total", "wall")

    def __init__(self) -> None:
        self.length = 0  # whole rows: a step's index is its position
        self.start_ns = array("q")
        self.wall = array("d")
        self.total = array("d")
        self.loss = array("d")
        self.allocated = array("q")
        self.device = tuple(array("d") for _ in PHASES)
        self.host = tuple(array("f") for _ in PHASES)

    def __len__(self) -> int:
        return self.length

    def append(self, step: StepDone) -> None:
        """Take one step; tuples shorter than spec.PHASES are filled with unknowns."""
        self.start_ns.append(step.start_ns)
        self.wall.append(step.wall_ms)
        self.total.append(step.total_ms)
        self.loss.append(_NAN if step.loss is None else step.loss)
        self.allocated.append(-1 if step.allocated_bytes is None else step.allocated_bytes)
        for columns, values in ((self.device, step.device_ms), (self.host, step.host_ms)):
            for position, column in enumerate(columns):
                value = values[position] if position < len(values) else None
                column.append(_NAN if value is None else value)
        self.length += 1

    def view(self) -> StepsView:
        """The rows so far."""
        return StepsView(self, self.length)


@dataclass(frozen=True)
class StepRow:
    """One step, unknowns as None; milliseconds, bytes."""

    index: int
    start_ns: int
    wall_ms: float
    total_ms: float
    device_ms: tuple[float | None, ...]
    host_ms: tuple[float | None, ...]
    loss: float | None
    allocated_bytes: int | None


@dataclass(frozen=True, eq=False)
class StepsView:
    """The first `length` rows of a case's columns."""

    _columns: StepColumns = field(default_factory=StepColumns)
    _length: int = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[StepRow]:
        return (self.row(position) for position in range(self._length))

    def row(self, position: int) -> StepRow:
        """The step at a position; negative positions count from the end."""
        if not -self._length <= position < self._length:
            raise IndexError(position)
        at = position % self._length
        c = self._columns
        return StepRow(
            index=at,
            start_ns=c.start_ns[at],
            wall_ms=c.wall[at],
            total_ms=c.total[at],
            device_ms=tuple(_known(column[at]) for column in c.device),
            host_ms=tuple(_known(column[at]) for column in c.host),
            loss=_known(c.loss[at]),
            allocated_bytes=None if c.allocated[at] < 0 else c.allocated[at],
        )

    def device_ms(self, phase: Phase, start: int = 0) -> list[float]:
        """Device times of a phase from row `start` on; empty when the mode lacks the phase."""
        column = self._columns.device[PHASES.index(phase)][start : self._length]
        return [value for value in column if not math.isnan(value)]

    def host_ms(self, phase: Phase, start: int = 0) -> list[float]:
        """Host launch times of a phase from row `start` on."""
        column = self._columns.host[PHASES.index(phase)][start : self._length]
        return [value for value in column if not math.isnan(value)]

    def total_ms(self, start: int = 0) -> list[float]:
        """Device times of whole steps from row `start` on."""
        return self._columns.total[start : self._length].tolist()

    def wall_ms(self, start: int = 0) -> list[float]:
        """Wall times of whole steps from row `start` on."""
        return self._columns.wall[start : self._length].tolist()

    def start_ns(self, start: int = 0) -> list[int]:
        """Start times of steps from row `start` on, CLOCK_MONOTONIC nanoseconds."""
        return self._columns.start_ns[start : self._length].tolist()

    def host_share(self) -> float | None:
        """Median over steps of host launch time ÷ wall time; None without steps."""
        c = self._columns
        shares = [
            sum(value for column in c.host if not math.isnan(value := column[at])) / c.wall[at]
            for at in range(self._length)
            if c.wall[at] > 0
        ]
        return statistics.median(shares) if shares else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
