"""Long series made short: lowest and highest value of each stretch of time."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

LowHigh = tuple[float, float] | None  # None: there was something, but it is not known


class Envelope:
    """Minimum and maximum per stretch of x, of constant size however many points come.

    Points must come in order of x. When the stretches run out, neighbours merge and each is
    twice as long; appending stays O(1).
    """

    def __init__(self, capacity: int = 1024, width: float = 1.0) -> None:
        self._capacity = capacity
        self._width = width
        self._origin: float | None = None
        self._at: list[int] = []  # the stretches that have points, in order
        self._middles: list[float] = []
        self._columns: list[LowHigh] = []
        self.highest: float | None = None
        self.last: float | None = None
        self.count = 0

    def extend(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        """Take points in order of x; a y that is not finite is unknown."""
        self.count += len(xs)
        if not xs:
            return
        if self._origin is None:
            self._origin = xs[0]
        while int((xs[-1] - self._origin) / self._width) >= self._capacity:
            self._merge()
        start = 0
        while start < len(xs):
            at = max(0, int((xs[start] - self._origin) / self._width))
            border = self._origin + (at + 1) * self._width
            end = max(start + 1, bisect_left(xs, border, start))
            self._put(at, _range(ys[start:end]))
            start = end
        self.last = next((y for y in reversed(ys) if math.isfinite(y)), self.last)

    def append(self, x: float, y: float) -> None:
        """Take one point."""
        self.extend((x,), (y,))

    def points(self) -> tuple[list[float], list[LowHigh]]:
        """Middle of each stretch that has points, and its lowest and highest known value.

        The lists are the envelope's own and grow with it.
        """
        return self._middles, self._columns

    def _put(self, at: int, column: LowHigh) -> None:
        if column is not None:
            self.highest = column[1] if self.highest is None else max(self.highest, column[1])
        place = len(self._at) if not self._at or at > self._at[-1] else bisect_left(self._at, at)
        if place < len(self._at) and self._at[place] == at:
            self._columns[place] = join(self._columns[place], column)
        else:
            self._at.insert(place, at)
            self._columns.insert(place, column)
            self._middles.insert(place, self._middle(at))

    def _middle(self, at: int) -> float:
        return (self._origin or 0.0) + (at + 0.5) * self._width

    def _merge(self) -> None:
        self._width *= 2
        merged: dict[int, LowHigh] = {}
        for at, column in zip(self._at, self._columns, strict=True):
            merged[at // 2] = join(merged.get(at // 2), column)
        self._at, self._columns = list(merged), list(merged.values())
        self._middles = [self._middle(at) for at in merged]


def join(one: LowHigh, other: LowHigh) -> LowHigh:
    """The range that covers both."""
    if one is None or other is None:
        return one or other
    return min(one[0], other[0]), max(one[1], other[1])


def bucket(
    xs: Sequence[float], columns: Sequence[LowHigh], start: float, end: float, count: int
) -> list[LowHigh]:
    """Points between start and end into `count` columns; empty columns are None.

    Nothing is lost: every column keeps the lowest and highest value that fell into it.
    """
    out: list[LowHigh] = [None] * count
    if not end > start:
        return out
    per_column = count / (end - start)
    first, last = bisect_left(xs, start), bisect_left(xs, end)
    for at in range(first, last):
        column = int((xs[at] - start) * per_column)
        column = column if column < count else count - 1
        held = out[column]
        out[column] = columns[at] if held is None else join(held, columns[at])
    return out


def gaps(
    xs: Sequence[float], columns: Sequence[LowHigh], start: float, end: float, count: int
) -> list[int]:
    """The columns, of `count` between start and end, into which an unknown point falls."""
    if not end > start:
        return []
    per_column = count / (end - start)
    first, last = bisect_left(xs, start), bisect_left(xs, end)
    found = (int((xs[at] - start) * per_column) for at in range(first, last) if columns[at] is None)
    return [min(column, count - 1) for column in found]


def _range(values: Sequence[float]) -> LowHigh:
    if math.isfinite(sum(values)):
        return min(values), max(values)
    known = [value for value in values if math.isfinite(value)]
    return (min(known), max(known)) if known else None


def as_columns(ys: Sequence[float]) -> list[LowHigh]:
    """Single values as ranges; what is not finite is None."""
    return [(y, y) if math.isfinite(y) else None for y in ys]
