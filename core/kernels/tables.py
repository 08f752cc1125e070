"""Activities to tables: kernels, classes, ops and modules of each phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from llmprof.core.events.kernel_rows import CLASSES, UNATTRIBUTED, KernelRow, ShareRow
from llmprof.core.kernels.attribution import Activities
from llmprof.core.kernels.classes import classify
from llmprof.core.kernels.columns import Int64, Kind
from llmprof.core.kernels.short_names import short_names

MOST_ROWS = 250  # kernels of one phase; what is beyond stands in one row a class
_MS = 1e-6
Float64 = NDArray[np.float64]
Sources = dict[tuple[str, str, str | None, str | None], str]
"""(phase, kernel's full name, op, module) -> file:line in function."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows of equal keys: the distinct keys (G, K), and each activity's group (N,)."""

    keys: Int64
    of: Int64

    @classmethod
    def by(cls, *columns: NDArray[np.integer]) -> Groups:
        """Group by these columns, each of which holds integers from -1 up."""
        combined = np.zeros(len(columns[0]), np.int64)
        for column in columns:
            combined = combined * (int(column.max(initial=-1)) + 2) + column + 1
        _, first, of = np.unique(combined, return_index=True, return_inverse=True)
        keys = np.stack([column[first].astype(np.int64) for column in columns], axis=-1)
        return cls(keys, of.reshape(-1).astype(np.int64))

    def __len__(self) -> int:
        return len(self.keys)

    def count(self) -> Int64:
        """Members of each group."""
        return np.bincount(self.of, minlength=len(self)).astype(np.int64)

    def total(self, values: Int64) -> Int64:
        """Sum of each group; exact, since nanoseconds of hours stay below 2**53."""
        sums = np.bincount(self.of, weights=values.astype(np.float64), minlength=len(self))
        return np.rint(sums).astype(np.int64)

    def std(self, values: Int64) -> Float64:
        """Sample standard deviation (ddof 1) of each group, nan below two members."""
        n = self.count()
        mean = self.total(values) / n
        squares = np.bincount(self.of, weights=(values - mean[self.of]) ** 2, minlength=len(self))
        spread = np.full(len(self), np.nan)
        several = n > 1
        spread[several] = np.sqrt(squares[several] / (n[several] - 1))
        return spread

    def extremes(self, values: Int64) -> tuple[Int64, Int64]:
        """Least and greatest value of each group."""
        low = np.full(len(self), np.iinfo(np.int64).max)
        high = np.full(len(self), np.iinfo(np.int64).min)
        np.minimum.at(low, self.of, values)
        np.maximum.at(high, self.of, values)
        return low, high

    def leading(self, labels: NDArray[np.integer], weights: Int64) -> Int64:
        """For each group the label with the greatest weight; ties go to the lower label."""
        pairs = Groups.by(self.of, labels)
        weight = pairs.total(weights)
        order = np.lexsort((pairs.keys[:, 1], -weight, pairs.keys[:, 0]))
        groups = pairs.keys[order, 0]
        first = np.concatenate([[True], groups[1:] != groups[:-1]]) if len(groups) else groups
        leading = np.full(len(self), -1, np.int64)
        chosen = order[first.astype(np.bool_)]
        leading[pairs.keys[chosen, 0]] = pairs.keys[chosen, 1]
        return leading


def class_ids(activities: Activities) -> Int64:
    """Class of each activity, a position in classes.CLASSES."""
    place = activities.of_op(activities.tree.place)
    groups = Groups.by(
        activities.kind, activities.name, activities.op_name, activities.phase, place
    )
    names, places = activities.columns.names, activities.tree.places
    phases = activities.windows.phases
    ids = [
        CLASSES.index(
            classify(
                Kind(kind),
                names[name],
                _at(names, op),
                _at(phases, phase),
                _at(places, where),
            )
        )
        for kind, name, op, phase, where in groups.keys.tolist()
    ]
    return np.array(ids, np.int64)[groups.of]


def kernel_rows(activities: Activities, classes: Int64) -> tuple[KernelRow, ...]:
    """One row a kernel, class and phase; phases in order, the longest first.

    The class is part of the key, so that a class's time is the sum of its rows.
    """
    busy = activities.busy
    by = Groups.by(activities.phase, classes, activities.name)
    calls, total, std = by.count(), by.total(busy), by.std(busy)
    low, high = by.extremes(busy)
    origin = _origins(activities, by)
    names, places = activities.columns.names, activities.tree.places
    used = sorted({int(name) for name in by.keys[:, 2]})
    short = dict(zip(used, short_names([names[name] for name in used]), strict=True))
    rows = [
        KernelRow(
            phase=phase_name(activities, phase),
            name=short[name],
            full_name=names[name],
            group=CLASSES[group],
            calls=int(calls[at]),
            total_ms=float(total[at]) * _MS,
            std_ms=None if np.isnan(std[at]) else float(std[at]) * _MS,
            min_ms=float(low[at]) * _MS,
            max_ms=float(high[at]) * _MS,
            place=int(origin.place[at]),
            op=_at(names, int(origin.op[at])),
            module=_at(places, int(origin.module[at])),
            origin_share=100 * int(origin.busy[at]) / int(total[at]) if total[at] else None,
        )
        for at, (phase, group, name) in enumerate(by.keys.tolist())
    ]
    return _ordered(rows, activities)


@dataclass(frozen=True, eq=False)
class Origins:
    """Of each group the pair of op and module with most of its time, and that time."""

    op: Int64
    module: Int64
    busy: Int64
    place: Int64  # the stream or thread with most of it


def _origins(activities: Activities, by: Groups) -> Origins:
    busy, place = activities.busy, activities.columns.place[activities.event]
    pairs = Groups.by(activities.op_name, activities.of_op(activities.tree.place))
    leading = by.leading(pairs.of, busy + 1)  # + 1: of what took no time most calls lead
    mine = pairs.of == leading[by.of]
    streams, stream_of = np.unique(place, return_inverse=True)
    stream = by.leading(stream_of.reshape(-1), np.where(mine, busy + 1, 0))
    op, module = pairs.keys[leading].T
    return Origins(op, module, by.total(np.where(mine, busy, 0)), streams[stream])


def launch_sources(activities: Activities) -> Sources:
    """The line of Python that launched most of the time of each kernel, by its origin."""
    places, names = activities.tree.places, activities.columns.names
    place = activities.of_op(activities.tree.place)
    by = Groups.by(activities.phase, activities.name, activities.op_name, place)
    source = by.leading(activities.of_op(activities.tree.source), activities.busy + 1)
    return {
        (
            phase_name(activities, phase),
            names[name],
            _at(names, op),
            _at(places, module),
        ): activities.tree.sources[source[at]]
        for at, (phase, name, op, module) in enumerate(by.keys.tolist())
        if source[at] >= 0
    }


def with_sources(rows: tuple[KernelRow, ...], sources: Sources) -> tuple[KernelRow, ...]:
    """The rows with the Python line that launched their op in their module, where it is known."""
    return tuple(
        msgspec.structs.replace(
            row, source=sources.get((row.phase, row.full_name, row.op, row.module))
        )
        for row in rows
    )


def share_rows(
    activities: Activities, labels: NDArray[np.integer], texts: Sequence[str]
) -> tuple[ShareRow, ...]:
    """Time of each label in each phase, the longest first; label -1 is unattributed."""
    by = Groups.by(activities.phase, labels)
    calls, total = by.count(), by.total(activities.busy)
    rows = [
        ShareRow(
            phase=phase_name(activities, phase),
            label=_at(texts, label) or UNATTRIBUTED,
            calls=int(calls[at]),
            total_ms=float(total[at]) * _MS,
        )
        for at, (phase, label) in enumerate(by.keys.tolist())
    ]
    order = _phase_order(activities)
    return tuple(sorted(rows, key=lambda row: (order[row.phase], -row.total_ms, row.label)))


def phase_name(activities: Activities, phase: int) -> str:
    """Name of a phase's position; -1 is unattributed."""
    return _at(activities.windows.phases, phase) or UNATTRIBUTED


def _ordered(rows: list[KernelRow], activities: Activities) -> tuple[KernelRow, ...]:
    kept: list[KernelRow] = []
    for phase in _phase_order(activities):
        mine = sorted(
            (row for row in rows if row.phase == phase), key=lambda row: (-row.total_ms, row.name)
        )
        kept.extend(mine[:MOST_ROWS])
        rest = mine[MOST_ROWS:]
        for group in dict.fromkeys(row.group for row in rest):
            kept.append(_merged(phase, group, [row for row in rest if row.group == group]))
    return tuple(kept)


def _merged(phase: str, group: str, rest: list[KernelRow]) -> KernelRow:
    label = f"({len(rest)} other of class {group})"
    return KernelRow(
        phase=phase,
        name=label,
        full_name=label,
        group=group,
        calls=sum(row.calls for row in rest),
        total_ms=sum(row.total_ms for row in rest),
        min_ms=min(row.min_ms for row in rest),
        max_ms=max(row.max_ms for row in rest),
        merged=len(rest),
    )


def _phase_order(activities: Activities) -> dict[str, int]:
    phases = (*activities.windows.phases, UNATTRIBUTED)
    return {phase: position for position, phase in enumerate(phases)}


def _at(texts: Sequence[str], position: int) -> str | None:
    return texts[position] if position >= 0 else None
