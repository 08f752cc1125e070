"""Which event encloses which, per thread, without a loop over events."""

from __future__ import annotations

import numpy as np

from llmprof.core.kernels.columns import Bool, Int64

NONE = -1


def parents(start: Int64, end: Int64, thread: Int64) -> tuple[Int64, Int64]:
    """Position of each event's innermost encloser on its thread (-1: none), and its depth.

    Events of one thread nest: an event lies within any other that is open when it starts;
    crossing() finds those for which that does not hold.
    """
    parent = np.full(len(start), NONE, np.int64)
    depth = np.zeros(len(start), np.int64)
    for each in np.unique(thread):
        rows = np.flatnonzero(thread == each)
        _parents_of_thread(start, np.maximum(end, start + 1), rows, parent, depth)
    return parent, depth


def crossing(parent: Int64, end: Int64) -> Bool:
    """Events that end after their encloser does, so that what encloses them is not known."""
    found: Bool = (parent >= 0) & (end > end[np.maximum(parent, 0)])
    return found


def nearest(parent: Int64, depth: Int64, wanted: Bool, *, itself: bool) -> Int64:
    """Position of each event's nearest encloser that is wanted, -1 when there is none.

    With `itself` an event that is wanted is its own answer.
    """
    found = np.full(len(parent), NONE, np.int64)
    for level in range(int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero(depth == level)
        above = parent[rows]
        inside = above >= 0
        rows_in, above = rows[inside], above[inside]
        found[rows_in] = np.where(wanted[above], above, found[above])
    if itself:
        own = np.flatnonzero(wanted)
        found[own] = own
    return found


def self_time(parent: Int64, duration: Int64) -> Int64:
    """Duration of each event less that of the events directly within it, never below 0."""
    inside = parent >= 0
    children = np.bincount(
        parent[inside], weights=duration[inside].astype(np.float64), minlength=len(parent)
    )
    return np.maximum(duration - np.rint(children).astype(np.int64), 0)


def union(start: Int64, end: Int64) -> tuple[Int64, Int64]:
    """Starts and ends of the stretches covered by at least one interval, in order."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    starts, reach = start[order], np.maximum.accumulate(end[order])
    first = np.concatenate([[True], starts[1:] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return starts[first], reach[last]


def _parents_of_thread(start: Int64, end: Int64, rows: Int64, parent: Int64, depth: Int64) -> None:
    order = rows[np.lexsort((-end[rows], start[rows]))]
    starts, ends = start[order], end[order]
    closed = np.searchsorted(np.sort(ends), starts, side="right")
    levels = np.maximum(np.arange(len(order)) - closed, 0)
    depth[order] = levels
    above = np.zeros(0, np.int64)
    for level in range(int(levels.max(initial=0)) + 1):
        at = np.flatnonzero(levels == level)
        if len(above):
            before = np.searchsorted(above, at) - 1
            parent[order[at[before >= 0]]] = order[above[before[before >= 0]]]
        above = at
