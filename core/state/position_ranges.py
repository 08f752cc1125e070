"""Positions in ascending order, kept as stretches of neighbours: a few bytes where many touch."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from heapq import merge


class Stretches:
    """A growing set of positions; what is added must not lie before what is there."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, positions: Iterable[int] = ()) -> None:
        self._firsts = array("q")
        self._lasts = array("q")
        self.extend(positions)

    def extend(self, positions: Iterable[int]) -> None:
        """Add positions in ascending order; those that are there already are passed over."""
        for position in positions:
            self._add(position, position)

    def _add(self, first: int, last: int) -> None:
        if self._lasts and first <= self._lasts[-1] + 1:
            self._lasts[-1] = max(last, self._lasts[-1])
        else:
            self._firsts.append(first)
            self._lasts.append(last)

    def union(self, other: Stretches) -> Stretches:
        """The positions of both."""
        both = Stretches()
        pairs = (zip(each._firsts, each._lasts, strict=True) for each in (self, other))
        for first, last in merge(*pairs):
            both._add(first, last)
        return both

    def thinned(self, most: int) -> list[int]:
        """About `most` positions, evenly over all."""
        stride = max(1, -(-len(self) // most))
        found: list[int] = []
        skip = 0
        for first, last in zip(self._firsts, self._lasts, strict=True):
            found += range(first + skip, last + 1, stride)
            skip = (skip - (last + 1 - first)) % stride
        return found

    def copy(self) -> Stretches:
        """The same positions, growing apart from now on."""
        twin = Stretches()
        twin._firsts, twin._lasts = self._firsts[:], self._lasts[:]
        return twin

    def __len__(self) -> int:
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __iter__(self) -> Iterator[int]:
        for first, last in zip(self._firsts, self._lasts, strict=True):
            yield from range(first, last + 1)

    def __contains__(self, position: object) -> bool:
        if not isinstance(position, int):
            return False
        at = bisect_right(self._firsts, position) - 1
        return at >= 0 and position <= self._lasts[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stretches):
            return NotImplemented
        return (self._firsts, self._lasts) == (other._firsts, other._lasts)

    __hash__ = None  # type: ignore[assignment]
