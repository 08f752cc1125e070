"""Nesting, self time and unions against the plain definitions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmprof.core.kernels.nesting import nearest, parents, self_time, union

Interval = tuple[int, int]


@st.composite
def nested(draw: st.DrawFn) -> list[Interval]:
    """Intervals that nest, as calls of one thread do, in random order."""
    intervals: list[Interval] = []

    def fill(begin: int, end: int, depth: int) -> None:
        at = begin
        for _ in range(draw(st.integers(0, 3))):
            start = at + draw(st.integers(0, 5))
            stop = start + draw(st.integers(1, 40))
            if stop > end:
                return
            intervals.append((start, stop))
            if depth < 4:
                fill(start, stop, depth + 1)
            at = stop

    fill(0, 200, 0)
    return list(draw(st.permutations(intervals)))


def arrays(intervals: list[Interval]) -> tuple[np.ndarray, np.ndarray]:
    data = np.array(intervals, np.int64).reshape(-1, 2)
    return data[:, 0], data[:, 1]


@given(nested(), nested())
def test_parent_is_the_smallest_encloser(first: list[Interval], second: list[Interval]) -> None:
    intervals = first + second
    thread = np.array([1] * len(first) + [2] * len(second), np.int64)
    start, end = arrays(intervals)
    parent, depth = parents(start, end, thread)
    for i, (a, b) in enumerate(intervals):
        around = [
            j
            for j, (c, d) in enumerate(intervals)
            if j != i and thread[j] == thread[i] and c <= a and b <= d and (c, d) != (a, b)
        ]
        same = [j for j, other in enumerate(intervals) if j != i and other == (a, b)]
        if same:
            continue
        if not around:
            assert parent[i] == -1
            assert depth[i] == 0
        else:
            smallest = min(around, key=lambda j: intervals[j][1] - intervals[j][0])
            assert intervals[parent[i]] == intervals[smallest]


@given(nested())
def test_self_times_sum_to_what_is_covered(intervals: list[Interval]) -> None:
    start, end = arrays(intervals)
    parent, _ = parents(start, end, np.ones(len(intervals), np.int64))
    own = self_time(parent, end - start)
    starts, ends = union(start, end)
    assert own.sum() == (ends - starts).sum()
    assert (own >= 0).all()


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30))))
def test_union_covers_each_point_once(pairs: list[tuple[int, int]]) -> None:
    start = np.array([a for a, _ in pairs], np.int64)
    end = start + np.array([b for _, b in pairs], np.int64)
    starts, ends = union(start, end)
    covered = {point for a, b in pairs for point in range(a, a + b)}
    found = [point for a, b in zip(starts, ends, strict=True) for point in range(a, b)]
    assert sorted(covered) == found
    assert (starts[1:] > ends[:-1]).all()


def test_nearest_skips_what_is_not_wanted() -> None:
    start = np.array([0, 10, 20, 30], np.int64)
    end = np.array([100, 90, 80, 70], np.int64)
    parent, depth = parents(start, end, np.ones(4, np.int64))
    wanted = np.array([True, False, True, False])
    assert nearest(parent, depth, wanted, itself=False).tolist() == [-1, 0, 0, 2]
    assert nearest(parent, depth, wanted, itself=True).tolist() == [0, 0, 2, 2]


def test_an_event_without_duration_has_its_parent() -> None:
    start = np.array([0, 5, 5], np.int64)
    end = np.array([10, 5, 9], np.int64)
    parent, _ = parents(start, end, np.ones(3, np.int64))
    assert parent[2] == 0
    assert parent[1] in (0, 2)
