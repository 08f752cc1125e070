"""Sorted, disjoint stretches of time: what readings say between the moments they were made."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

Interval = tuple[int, int]  # start and end, CLOCK_MONOTONIC nanoseconds


def joined(intervals: Iterable[Interval]) -> list[Interval]:
    """Touching neighbours made one; the input is in order."""
    merged: list[Interval] = []
    for start, end in intervals:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return merged


def overlap_ns(intervals: Iterable[Interval], start: int, end: int) -> int:
    """Nanoseconds that the intervals share with one stretch."""
    return sum(max(0, min(end, b) - max(start, a)) for a, b in intervals)


def touched(starts: Sequence[int], ends: Sequence[int], intervals: list[Interval]) -> list[int]:
    """Positions of the stretches [start, end) that overlap any interval; both sorted."""
    found = []
    at = 0
    for position, (start, end) in enumerate(zip(starts, ends, strict=True)):
        while at < len(intervals) and intervals[at][1] <= start:
            at += 1
        if at < len(intervals) and intervals[at][0] < end:
            found.append(position)
    return found


def trapezoid(times: Sequence[int], values: Sequence[float]) -> float:
    """Integral of a sampled value over its times, in value x seconds."""
    pairs = itertools.pairwise(zip(times, values, strict=True))
    return sum((t2 - t1) / 1e9 * (v1 + v2) / 2 for (t1, v1), (t2, v2) in pairs)
