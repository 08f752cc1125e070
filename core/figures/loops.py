"""What follows from the rows of a tracked loop: pace, parts, and which rank is slow."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from llmprof.core.state.loops import LoopState

NEWEST_NS = 10_000_000_000  # over which the pace is taken
COMPARED = 200  # rows over which ranks are compared
LEAST_EXCESS_MS = 1.0
LEAST_SHARE = 0.05  # of a step: less is no straggler
WAITS_IN = "backward"  # where ranks wait for each other
NOT_OWN = frozenset({WAITS_IN, "between"})


@dataclass(frozen=True)
class Part:
    """A part's mean time a step over some rows, and its share of the wall time."""

    name: str
    host_ms: float
    share: float
    device_ms: float | None = None


@dataclass(frozen=True)
class Straggler:
    """The rank whose own work takes longest, and the part that it takes longer in."""

    rank: int
    part: str
    excess_ms: float  # a step, against the median of the others
    waited_ms: float = 0.0  # by which the others' backward is longer, where they wait for it


def steps_per_s(loop: LoopState, now_ns: int | None = None) -> float | None:
    """Steps a second lately, up to now where it goes on; None before two steps have ended."""
    rows = loop.rows
    end = rows.end_ns
    if end is None or len(rows) < 2:
        return None
    first = min(rows.row_at(end - NEWEST_NS), len(rows) - 2)
    times = rows.start_ns(first)
    span_ns = max(end, now_ns or 0) - times[0]
    return sum(rows.count(first)) / (span_ns / 1e9) if span_ns > 0 else None


def parts(loop: LoopState, start: int = 0, end: int | None = None) -> list[Part]:
    """Every part's mean over rows, weighted by their steps, in the order of the loop."""
    import numpy as np  # not needed for the first frame

    rows = loop.rows.stretch(start, end)
    counts = np.array(rows.count, np.float64)
    steps = float(counts.sum())
    if not steps:
        return []
    whole = float(np.array(rows.wall, np.float64) @ counts)
    found = []
    for name, times in rows.parts.items():
        sums = float(np.array(times, np.float64) @ counts)
        if not sums:
            continue
        device = np.array(rows.device.get(name, ()), np.float64)
        known = np.flatnonzero(~np.isnan(device))
        of_device = (
            float(device[known] @ counts[known] / counts[known].sum()) if len(known) else None
        )
        found.append(Part(name, sums / steps, sums / whole if whole else 0.0, of_device))
    return found


def own_ms(loop: LoopState, start: int, end: int) -> dict[str, float]:
    """Mean time a step of each part of a rank's own work: without waiting for other ranks."""
    known = (each for each in parts(loop, start, end) if each.name not in NOT_OWN)
    return {each.name: each.host_ms for each in known}


def straggler(loops: Sequence[LoopState]) -> Straggler | None:
    """The slowest of several ranks by its own work over the same steps; None where none is.

    Ranks that wait for each other have walls alike, and those that wait do so in backward: own
    work is the wall without it.
    """
    compared = same_steps(loops)
    if compared is None:
        return None
    own = {rank: own_ms(loop, *span) for rank, (loop, span) in compared.items()}
    totals = {rank: sum(each.values()) for rank, each in own.items()}
    slow = max(totals, key=totals.__getitem__)
    others = [rank for rank in totals if rank != slow]
    excess = totals[slow] - statistics.median(totals[rank] for rank in others)
    loop, (start, end) = compared[slow]
    wall = statistics.fmean(loop.rows.wall_ms(start)[: end - start])
    if excess < max(LEAST_EXCESS_MS, LEAST_SHARE * wall):
        return None

    def more(part: str) -> float:
        return own[slow][part] - statistics.median(own[rank].get(part, 0.0) for rank in others)

    backward = {rank: _backward_ms(loop, span) for rank, (loop, span) in compared.items()}
    waited = statistics.median(backward[rank] for rank in others) - backward[slow]
    return Straggler(slow, max(own[slow], key=more), excess, waited)


def _backward_ms(loop: LoopState, span: tuple[int, int]) -> float:
    return next((part.host_ms for part in parts(loop, *span) if part.name == WAITS_IN), 0.0)


def same_steps(
    loops: Sequence[LoopState],
) -> dict[int, tuple[LoopState, tuple[int, int]]] | None:
    """The rows of the newest steps that all ranks have done, by rank; None below two ranks."""
    newest = [loop.step for loop in loops]
    if len(loops) < 2 or None in newest:
        return None
    last = min(step for step in newest if step is not None)
    found = {}
    for loop in loops:
        begun = loop.restarts[-1][1] if loop.restarts else 0
        end = loop.rows.row_after(last, begun)
        start = max(begun + (end - begun > 2), end - COMPARED)  # the first step warms up
        if end <= start:
            return None
        found[loop.rank] = loop, (start, end)
    return found


def failures(loops: Sequence[LoopState]) -> list[LoopState]:
    """The ranks that failed, in that order: the others may only have followed the first.

    None of a single rank, nor of several machines, which have no clock in common.
    """
    if len(loops) < 2 or len({loop.started.node for loop in loops}) > 1:
        return []
    failed = [(loop.done.t, loop) for loop in loops if loop.done and loop.done.outcome == "failed"]
    return [loop for _, loop in sorted(failed, key=lambda each: each[0])]


def behind(loops: Sequence[LoopState], loop: LoopState) -> int:
    """Steps that a rank is behind the one that is farthest."""
    farthest = max((each.step for each in loops if each.step is not None), default=0)
    return farthest - (loop.step if loop.step is not None else -1)
