"""Steps of one case in columns: compact while a run streams, frozen views for readers."""

from __future__ import annotations

import math
import operator
import statistics
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TypeVar

from llmprof.core.events import StepDone
from llmprof.core.spec import PHASES, Phase

T = TypeVar("T", int, float)
BLOCK = 4096  # rows
BATCH = 256  # steps that are written at once
_NAN = math.nan


class _Block:
    """Some rows in columns."""

    __slots__ = ("allocated", "device", "host", "loss", "start_ns", "total", "wall")

    def __init__(self) -> None:
        self.start_ns = array("q")
        self.wall = array("d")
        self.total = array("d")
        self.loss = array("d")
        self.allocated = array("q")
        self.device = tuple(array("d") for _ in PHASES)
        self.host = tuple(array("f") for _ in PHASES)

    def extend(self, steps: Sequence[StepDone]) -> None:
        """Take steps, column by column."""
        self.start_ns.extend([step.start_ns for step in steps])
        self.wall.extend([step.wall_ms for step in steps])
        self.total.extend([step.total_ms for step in steps])
        self.loss.extend(_as_floats([step.loss for step in steps]))
        sizes = [step.allocated_bytes for step in steps]
        self.allocated.extend([-1 if size is None else size for size in sizes])
        for columns, rows in (
            (self.device, [step.device_ms for step in steps]),
            (self.host, [step.host_ms for step in steps]),
        ):
            values = zip_longest((None,) * len(PHASES), *rows)  # short rows are filled up
            for column, (_, *known) in zip(columns, values, strict=False):
                column.extend(_as_floats(known))

    def fit(self) -> None:
        """Give back the room that growing arrays keep in reserve; readers see the same rows."""
        self.start_ns, self.wall, self.total = self.start_ns[:], self.wall[:], self.total[:]
        self.loss, self.allocated = self.loss[:], self.allocated[:]
        self.device = tuple(column[:] for column in self.device)
        self.host = tuple(column[:] for column in self.host)


class StepColumns:
    """Append-only; rows already written never change, so views share them.

    Blocks of a fixed size: a long array that grows is copied, and its old places stay lost.
    Steps wait until there are many, or until somebody wants a view.
    """

    __slots__ = ("_waiting", "blocks", "length")

    def __init__(self) -> None:
        self.length = 0  # steps taken: a step's index is its position
        self.blocks: list[_Block] = []
        self._waiting: list[StepDone] = []

    def __len__(self) -> int:
        return self.length

    def append(self, step: StepDone) -> None:
        """Take one step; tuples shorter than spec.PHASES are filled with unknowns."""
        if not self.length % BLOCK:
            self.blocks.append(_Block())
        self._waiting.append(step)
        self.length += 1
        if not self.length % BATCH:  # which divides BLOCK
            self._write()

    def view(self) -> StepsView:
        """The rows so far."""
        self._write()
        return StepsView(self, self.length)

    def _write(self) -> None:
        if self._waiting:
            self.blocks[-1].extend(self._waiting)
            self._waiting.clear()
            if not self.length % BLOCK:
                self.blocks[-1].fit()


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
        index = position % self._length
        block, at = self._columns.blocks[index // BLOCK], index % BLOCK
        return StepRow(
            index=index,
            start_ns=block.start_ns[at],
            wall_ms=block.wall[at],
            total_ms=block.total[at],
            device_ms=tuple(_known(column[at]) for column in block.device),
            host_ms=tuple(_known(column[at]) for column in block.host),
            loss=_known(block.loss[at]),
            allocated_bytes=None if block.allocated[at] < 0 else block.allocated[at],
        )

    def device_ms(self, phase: Phase, start: int = 0) -> list[float]:
        """Device times of a phase from row `start` on; empty when the mode lacks the phase."""
        return _without_nan(self.device_ms_or_nan(phase, start))

    def device_ms_or_nan(self, phase: Phase, start: int = 0) -> list[float]:
        """The same, one a row, NaN where unknown."""
        at = PHASES.index(phase)
        return self._from(start, lambda block: block.device[at])

    def host_ms(self, phase: Phase, start: int = 0) -> list[float]:
        """Host launch times of a phase from row `start` on."""
        return _without_nan(self._host(PHASES.index(phase), start))

    def total_ms(self, start: int = 0) -> list[float]:
        """Device times of whole steps from row `start` on."""
        return self._from(start, lambda block: block.total)

    def wall_ms(self, start: int = 0) -> list[float]:
        """Wall times of whole steps from row `start` on."""
        return self._from(start, lambda block: block.wall)

    def start_ns(self, start: int = 0) -> list[int]:
        """Start times of steps from row `start` on, CLOCK_MONOTONIC nanoseconds."""
        return self._from(start, lambda block: block.start_ns)

    def host_share(self) -> float | None:
        """Median over steps of host launch time ÷ wall time; None without steps."""
        walls = self.wall_ms()
        hosts = [0.0] * len(walls)
        for at in range(len(PHASES)):
            known = self._host(at)
            if any(map(math.isnan, known)):
                known = [0.0 if math.isnan(value) else value for value in known]
            hosts = list(map(operator.add, hosts, known))
        shares = [host / wall for host, wall in zip(hosts, walls, strict=True) if wall > 0]
        return statistics.median(shares) if shares else None

    def _host(self, phase: int, start: int = 0) -> list[float]:
        return self._from(start, lambda block: block.host[phase])

    def _from(self, start: int, column: Callable[[_Block], array[T]]) -> list[T]:
        """One column's rows from `start` on."""
        out: list[T] = []
        for at in range(start // BLOCK, -(-self._length // BLOCK)):
            first, last = max(0, start - at * BLOCK), self._length - at * BLOCK
            out += column(self._columns.blocks[at])[first:last]
        return out


def _as_floats(values: Iterable[float | None]) -> list[float]:
    return [_NAN if value is None else value for value in values]


def _without_nan(values: list[float]) -> list[float]:
    if not any(map(math.isnan, values)):
        return values
    return [value for value in values if not math.isnan(value)]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
