"""Steps of one rank's loop in columns: compact while it runs, frozen views for readers."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import mul

from llmprof.core.events.loop import MOST_PARTS, MOST_VALUES, LoopSteps

LONGEST_US = 2**50  # of an event: what no clock of ours can tell
_NAN = math.nan


class LoopColumns:
    """Append-only; rows already written never change, so views share them. Times: ms.

    The values of the very last may still come when the loop is over.
    """

    __slots__ = (
        "count",
        "device",
        "epochs",
        "index",
        "least",
        "most",
        "parts",
        "start_ns",
        "steps",
        "values",
        "wall",
    )

    def __init__(self) -> None:
        self.index = array("q")
        self.start_ns = array("q")
        self.count = array("l")
        self.wall, self.least, self.most = array("f"), array("f"), array("f")
        self.parts: dict[str, array[float]] = {}
        self.device: dict[str, array[float]] = {}
        self.values: dict[str, array[float]] = {}
        self.steps = 0  # that the rows stand for
        self.epochs: list[tuple[int, int]] = []  # row, the epoch that begins there

    def extend(self, event: LoopSteps) -> bool:
        """Take an event's rows; False, and none is taken, where its columns do not agree."""
        rows = len(next(iter(event.parts.values()), ()))
        if not rows or not _agree(event, rows):
            return False
        old = len(self.wall)
        counts = event.counts or (1,) * rows
        spans_us = [sum(column) for column in zip(*event.parts.values(), strict=True)]
        if sum(map(mul, spans_us, counts)) > LONGEST_US:
            return False
        walls = [us / 1000 for us in spans_us]
        self.index.fromlist(_indices(event, counts))
        start = event.start_ns
        for us, count in zip(spans_us, counts, strict=True):
            self.start_ns.append(start)
            start += us * 1000 * count
        self.count.fromlist(list(counts))
        self.steps += sum(counts)
        self.wall.fromlist(walls)
        self.least.fromlist([us / 1000 for us in event.least_us] or walls)
        self.most.fromlist([us / 1000 for us in event.most_us] or walls)
        _put(self.parts, event.parts, old, rows, missing=0.0, scale=1e-3, most=MOST_PARTS)
        if event.device or self.device:
            _put(self.device, event.device, old, rows, missing=_NAN, scale=1e-3, most=MOST_PARTS)
        if event.values or self.values:
            _put(self.values, event.values, old, rows, missing=_NAN, scale=1.0, most=MOST_VALUES)
        if event.epoch is not None and (not self.epochs or self.epochs[-1][1] != event.epoch):
            self.epochs.append((old, event.epoch))
        return True

    def log_last(self, values: Mapping[str, float]) -> None:
        """Values that were logged when the last row was written already; a later one counts."""
        rows = len(self.wall)
        for name, value in values.items() if rows else ():
            if name not in self.values and len(self.values) < MOST_VALUES:
                self.values[name] = array("d", [_NAN]) * rows
            if name in self.values:
                self.values[name][-1] = value

    def view(self) -> LoopRows:
        """The rows so far."""
        return LoopRows(self, len(self.wall), tuple(self.epochs))


@dataclass(frozen=True, eq=False)
class LoopStretch:
    """Columns of some rows, copied as they are: numbers of Python's take fifty times as long."""

    start_ns: array[int]
    count: array[int]
    wall: array[float]
    parts: dict[str, array[float]]
    device: dict[str, array[float]]


@dataclass(frozen=True, eq=False)
class LoopRows:
    """The first `length` rows of a rank; a row stands for `count` steps, `index` the last."""

    _columns: LoopColumns = field(default_factory=LoopColumns)
    _length: int = 0
    epochs: tuple[tuple[int, int], ...] = ()  # row, the epoch that begins there

    def __len__(self) -> int:
        return self._length

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of all parts that took time, in the order in which they came."""
        return tuple(self._columns.parts)

    @property
    def device_parts(self) -> tuple[str, ...]:
        """Names of the parts that the device's clock knows."""
        return tuple(self._columns.device)

    @property
    def values(self) -> tuple[str, ...]:
        """Names of the logged values."""
        return tuple(self._columns.values)

    def index(self, start: int = 0, end: int | None = None) -> list[int]:
        """Index of each row's last step, from row `start` on."""
        return self._columns.index[start : self._end(end)].tolist()

    def count(self, start: int = 0, end: int | None = None) -> list[int]:
        """How many steps each row stands for."""
        return self._columns.count[start : self._end(end)].tolist()

    def stretch(self, start: int = 0, end: int | None = None) -> LoopStretch:
        """What is needed of rows for the means of their parts."""
        columns, rows = self._columns, slice(start, self._end(end))
        parts, device = (
            {name: column[rows] for name, column in list(each.items())}
            for each in (columns.parts, columns.device)
        )
        start_ns, count, wall = columns.start_ns[rows], columns.count[rows], columns.wall[rows]
        return LoopStretch(start_ns, count, wall, parts, device)

    def start_ns(self, start: int = 0, end: int | None = None) -> list[int]:
        """When each row began, CLOCK_MONOTONIC nanoseconds."""
        return self._columns.start_ns[start : self._end(end)].tolist()

    def wall_ms(self, start: int = 0) -> list[float]:
        """Wall time a step, "between" included."""
        return self._columns.wall[start : self._length].tolist()

    def least_ms(self, start: int = 0) -> list[float]:
        """The shortest wall time of each row's steps."""
        return self._columns.least[start : self._length].tolist()

    def most_ms(self, start: int = 0) -> list[float]:
        """The longest wall time of each row's steps."""
        return self._columns.most[start : self._length].tolist()

    def part_ms(self, name: str, start: int = 0) -> list[float]:
        """Host time a step of a part; zeros where it took none."""
        return self._filled(self._columns.parts, name, start, 0.0)

    def device_ms(self, name: str, start: int = 0) -> list[float]:
        """Device time a step of a part; NaN where unknown."""
        return self._filled(self._columns.device, name, start, _NAN)

    def value(self, name: str, start: int = 0) -> list[float]:
        """A logged value; NaN where none was logged or it was no finite number."""
        return self._filled(self._columns.values, name, start, _NAN)

    def row_at(self, t: int) -> int:
        """The first row that began at t (monotonic ns) or later."""
        return bisect_left(self._columns.start_ns, t, 0, self._length)

    def row_after(self, step: int, start: int = 0) -> int:
        """The first row from `start` on of later steps than this one; they grow in a restart."""
        return bisect_right(self._columns.index, step, start, self._length)

    @property
    def last_index(self) -> int | None:
        """Index of the newest step."""
        return self._columns.index[self._length - 1] if self._length else None

    @property
    def end_ns(self) -> int | None:
        """When the newest row ended."""
        if not self._length:
            return None
        at, columns = self._length - 1, self._columns
        return columns.start_ns[at] + int(columns.wall[at] * 1e6) * columns.count[at]

    def _end(self, end: int | None) -> int:
        return self._length if end is None else min(end, self._length)

    def _filled(
        self, columns: Mapping[str, array[float]], name: str, start: int, missing: float
    ) -> list[float]:
        """A column's rows; it may have come after this view was made, or not at all."""
        column = columns.get(name)
        if column is None:
            return [missing] * (self._length - start)
        return column[start : self._length].tolist()


def _agree(event: LoopSteps, rows: int) -> bool:
    """Whether all columns are of one length."""
    sizes = {rows}
    for group in (event.parts, event.device, event.values):
        sizes.update(map(len, group.values()))
    sizes.update(len(each) for each in (event.counts, event.least_us, event.most_us) if each)
    return len(sizes) == 1 and all(row < rows for row, _ in event.gaps)


def _indices(event: LoopSteps, counts: Sequence[int]) -> list[int]:
    """Index of each row's last step."""
    if not event.counts and not event.gaps:
        return list(range(event.first, event.first + len(counts)))
    steps = list(counts)
    steps[0] = 0
    for row, left_out in event.gaps:
        steps[row] += left_out
    return list(accumulate(steps, initial=event.first))[1:]


def _put(
    columns: dict[str, array[float]],
    given: Mapping[str, Sequence[float | None]],
    old: int,
    rows: int,
    *,
    missing: float,
    scale: float,
    most: int,
) -> None:
    """Append rows to every column; one that is new is filled up from the beginning."""
    for name in given:
        if name not in columns and len(columns) < most:
            columns[name] = array("f" if scale != 1.0 else "d", [missing]) * old
    for name, column in columns.items():
        values = given.get(name)
        if values is None:
            column.fromlist([missing] * rows)
        else:
            column.fromlist([_NAN if value is None else value * scale for value in values])
