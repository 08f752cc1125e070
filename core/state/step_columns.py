"""Steps of one case in columns: compact while a run streams, frozen views for readers."""

from __future__ import annotations

import math
import operator
import statistics
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import TypeVar, cast

from llmprof.core.events import StepDone
from llmprof.core.spec.case import PHASES, Phase

T = TypeVar("T", int, float)
BLOCK_STEPS = 4096  # rows
BATCH = 256  # steps that are written at once
_NAN = math.nan
_WIDTH = len(PHASES)


class _Block:
    """Some rows in columns; those of the phases lie row after row."""

    __slots__ = ("allocated", "device", "host", "loss", "start_ns", "total", "wall")

    def __init__(self) -> None:
        self.start_ns = array("q")
        self.wall = array("d")
        self.total = array("d")
        self.loss = array("d")
        self.allocated = array("q")
        self.device = array("d")
        self.host = array("f")

    def extend(self, steps: Sequence[StepDone]) -> None:
        """Take steps, column by column."""
        self.start_ns.fromlist([step.start_ns for step in steps])
        self.wall.fromlist([step.wall_ms for step in steps])
        self.total.fromlist([step.total_ms for step in steps])
        _put(self.loss, [step.loss for step in steps])
        sizes = [step.allocated_bytes for step in steps]
        self.allocated.fromlist([-1 if size is None else size for size in sizes])
        _put(self.device, _flat([step.device_ms for step in steps]))
        _put(self.host, _flat([step.host_ms for step in steps]))

    def fit(self) -> None:
        """Give back the room that growing arrays keep in reserve; readers see the same rows."""
        self.start_ns, self.wall, self.total = self.start_ns[:], self.wall[:], self.total[:]
        self.loss, self.allocated = self.loss[:], self.allocated[:]
        self.device, self.host = self.device[:], self.host[:]


class StepColumns:
    """Append-only; rows already written never change, so views share them.

    Blocks of a fixed size: a long array that grows is copied, and its old places stay lost.
    Steps wait until there are many, or until somebody wants a view.
    """

    __slots__ = ("_next", "_waiting", "_written", "blocks", "holes")

    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self.holes: list[tuple[int, int]] = []  # position, steps that are missing before it in all
        self._next = 0  # index of the step that comes next
        self._written = 0
        self._waiting: list[StepDone] = []

    def __len__(self) -> int:
        return self._written + len(self._waiting)

    def continued_by(self, steps: Sequence[StepDone]) -> bool:
        """Whether these are steps that come next, each with every phase of spec.PHASES.

        Some may be missing before any of them: lines that could not be read.
        """
        before = self._next - 1
        for step in steps:
            if step.index <= before or len(step.device_ms) != _WIDTH:
                return False
            before = step.index
        return True

    def append(self, step: StepDone) -> None:
        """Take one step; tuples shorter than spec.PHASES are filled with unknowns."""
        self.extend((step,))

    def extend(self, steps: Iterable[StepDone]) -> None:
        """Take steps in order."""
        steps = list(steps)
        for position, step in enumerate(steps, len(self)):
            if step.index != self._next:
                missing = self.holes[-1][1] if self.holes else 0
                self.holes.append((position, missing + step.index - self._next))
            self._next = step.index + 1
        self._waiting.extend(steps)
        if len(self._waiting) >= BATCH:
            self._write()

    def view(self) -> StepsView:
        """The rows so far."""
        self._write()
        return StepsView(self, self._written, tuple(self.holes))

    def _write(self) -> None:
        steps, self._waiting = self._waiting, []
        while steps:
            if not self._written % BLOCK_STEPS:
                self.blocks.append(_Block())
            room = BLOCK_STEPS - self._written % BLOCK_STEPS
            self.blocks[-1].extend(steps[:room])
            self._written += len(steps[:room])
            if not self._written % BLOCK_STEPS:
                self.blocks[-1].fit()
            steps = steps[room:]


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
    _holes: tuple[tuple[int, int], ...] = ()  # position, steps that are missing before it in all

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[StepRow]:
        return (self.row(position) for position in range(self._length))

    def row(self, position: int) -> StepRow:
        """The step at a position; negative positions count from the end."""
        if not -self._length <= position < self._length:
            raise IndexError(position)
        position %= self._length
        block, at = self._columns.blocks[position // BLOCK_STEPS], position % BLOCK_STEPS
        missing = bisect_right(self._holes, position, key=itemgetter(0))
        phases = slice(at * _WIDTH, (at + 1) * _WIDTH)
        return StepRow(
            index=position + (self._holes[missing - 1][1] if missing else 0),
            start_ns=block.start_ns[at],
            wall_ms=block.wall[at],
            total_ms=block.total[at],
            device_ms=tuple(map(_known, block.device[phases])),
            host_ms=tuple(map(_known, block.host[phases])),
            loss=_known(block.loss[at]),
            allocated_bytes=None if block.allocated[at] < 0 else block.allocated[at],
        )

    def device_ms(self, phase: Phase, start: int = 0) -> list[float]:
        """Device times of a phase from row `start` on; empty when the mode lacks the phase."""
        return _without_nan(self.device_ms_or_nan(phase, start))

    def device_ms_or_nan(self, phase: Phase, start: int = 0) -> list[float]:
        """The same, one a row, NaN where unknown."""
        at = PHASES.index(phase)
        return self._from(start, lambda block: block.device[at::_WIDTH])

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
        hosts: Iterable[float] = [0.0] * len(walls)
        for at in range(_WIDTH):
            known = self._host(at)
            if math.isnan(sum(known)):
                known = [0.0 if math.isnan(value) else value for value in known]
            hosts = map(operator.add, hosts, known)
        shares = [host / wall for host, wall in zip(hosts, walls, strict=True) if wall > 0]
        return statistics.median(shares) if shares else None

    def _host(self, phase: int, start: int = 0) -> list[float]:
        return self._from(start, lambda block: block.host[phase::_WIDTH])

    def _from(self, start: int, column: Callable[[_Block], array[T]]) -> list[T]:
        """One column's rows from `start` on."""
        out: list[T] = []
        for at in range(start // BLOCK_STEPS, -(-self._length // BLOCK_STEPS)):
            first, last = max(0, start - at * BLOCK_STEPS), self._length - at * BLOCK_STEPS
            out += column(self._columns.blocks[at])[first:last].tolist()
        return out


def _put(column: array[float], values: list[float | None]) -> None:
    """Append values, unknown ones as NaN."""
    try:
        column.fromlist(cast("list[float]", values))  # all or none
    except TypeError:
        column.fromlist([_NAN if value is None else value for value in values])


def _flat(rows: Sequence[tuple[float | None, ...]]) -> list[float | None]:
    """Rows one after the other, each as wide as there are phases."""
    if set(map(len, rows)) != {_WIDTH}:
        gap = (None,) * _WIDTH
        rows = [(*row, *gap)[:_WIDTH] for row in rows]
    return list(chain.from_iterable(rows))


def _without_nan(values: list[float]) -> list[float]:
    if not math.isnan(sum(values)):
        return values
    return [value for value in values if not math.isnan(value)]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
