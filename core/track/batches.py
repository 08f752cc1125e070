"""Rows of steps as events: columns a flush, and one row a second once there are many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from llmprof.core.events.loop import LoopSteps
from llmprof.core.track.parts import device_us, sums_us
from llmprof.core.track.tracker import Row

V = TypeVar("V")
FULL_STEPS = 100_000  # rows of their own for the first so many steps
MOST_ROWS = 512  # of one event
MOST_SAID = 3  # names of values that it is said of that they were not finite
SECOND_NS = 1_000_000_000


@dataclass
class Figures:
    """One row of an event, microseconds: a step, or the means of a second's steps."""

    index: int
    epoch: int | None
    start_ns: int
    end_ns: int
    parts: dict[str, int]
    device: dict[str, int] = field(default_factory=dict)
    values: dict[str, float | None] = field(default_factory=dict)
    count: int = 1
    least_us: int = 0
    most_us: int = 0


def figures_of(row: Row) -> Figures:
    """A step's figures."""
    parts = sums_us(row.marks, row.end_ns)
    wall = sum(parts.values())
    return Figures(
        index=row.index,
        epoch=row.epoch,
        start_ns=row.marks[0][0],
        end_ns=row.end_ns,
        parts=parts,
        device={} if row.device_ms is None else device_us(row.marks, row.device_ms),
        values={name: finite(value) for name, value in row.values.items()},
        least_us=wall,
        most_us=wall,
    )


class Batches:
    """Turns rows into events; after FULL_STEPS steps a row stands for a second's steps."""

    def __init__(self, rank: int, restart: int, full_steps: int = FULL_STEPS) -> None:
        self._rank = rank
        self._restart = restart
        self._left = full_steps
        self._second: list[Figures] = []
        self._not_finite: set[str] = set()  # names of values of which that was said
        self.said: list[str] = []  # what is to be known of the values

    @property
    def rolled_up(self) -> bool:
        """Whether rows stand for seconds by now."""
        return self._left <= 0

    def events(self, rows: Iterable[Row], *, last: bool = False) -> list[LoopSteps]:
        """The events of rows that follow each other; last: nothing more will come."""
        ready: list[Figures] = []
        for row in rows:
            step = figures_of(row)
            if None in step.values.values():
                self._say_not_finite(row)
            if self._left > 0:
                self._left -= 1
                ready.append(step)
                continue
            if self._second and not _same_second(self._second[-1], step):
                ready.append(mean_of(self._second))
                self._second = []
            self._second.append(step)
        if last and self._second:
            ready.append(mean_of(self._second))
            self._second = []
        return [self._event(group) for group in _groups(ready)]

    def _say_not_finite(self, row: Row) -> None:
        for name, value in row.values.items():
            if finite(value) is None and name not in self._not_finite:
                if len(self._not_finite) < MOST_SAID:
                    self.said.append(
                        f"{name} was {value:g} at step {row.index:,}: figures and charts of it "
                        "leave such values out"
                    )
                self._not_finite.add(name)

    def _event(self, rows: Sequence[Figures]) -> LoopSteps:
        rolled = any(row.count > 1 for row in rows)
        gaps = tuple(
            (at, left_out)
            for at, (one, other) in enumerate(pairwise(rows), 1)
            if (left_out := other.index - other.count - one.index) > 0
        )
        return LoopSteps(
            rank=self._rank,
            restart=self._restart,
            t=rows[-1].end_ns,
            start_ns=rows[0].start_ns,
            first=rows[0].index,
            gaps=gaps,
            epoch=rows[0].epoch,
            parts=_columns([row.parts for row in rows], 0),
            device=_columns(_or_none([row.device for row in rows]), None),
            values=_columns([row.values for row in rows], None),
            counts=tuple(row.count for row in rows) if rolled else (),
            least_us=tuple(row.least_us for row in rows) if rolled else (),
            most_us=tuple(row.most_us for row in rows) if rolled else (),
        )


def mean_of(steps: Sequence[Figures]) -> Figures:
    """Several steps that follow each other as one row."""
    if len(steps) == 1:
        return steps[0]
    n, last = len(steps), steps[-1]
    parts = {name: _mean([step.parts.get(name, 0) for step in steps]) for name in _names(steps)}
    device_names = dict.fromkeys(name for step in steps for name in step.device)
    device = {
        name: _mean([step.device.get(name, 0) for step in steps if step.device])
        for name in device_names
    }
    value_names = dict.fromkeys(name for step in steps for name in step.values)
    values: dict[str, float | None] = {}
    for name in value_names:
        known = [v for step in steps if (v := step.values.get(name)) is not None]
        values[name] = finite(math.fsum(known) / len(known)) if known else None
    return Figures(
        index=last.index,
        epoch=last.epoch,
        start_ns=steps[0].start_ns,
        end_ns=last.end_ns,
        parts=parts,
        device=device,
        values=values,
        count=n,
        least_us=min(step.least_us for step in steps),
        most_us=max(step.most_us for step in steps),
    )


def _names(steps: Sequence[Figures]) -> dict[str, None]:
    return dict.fromkeys(name for step in steps for name in step.parts)


def _mean(values: Sequence[int]) -> int:
    return round(sum(values) / len(values))


def _same_second(one: Figures, other: Figures) -> bool:
    """Whether steps may share a row: of one second and one epoch, with nothing left out."""
    return (
        one.end_ns // SECOND_NS == other.end_ns // SECOND_NS
        and one.epoch == other.epoch
        and one.end_ns == other.start_ns
        and one.index + 1 == other.index
    )


def _groups(rows: Sequence[Figures]) -> Iterable[list[Figures]]:
    """Rows that one event can hold: without a break in time, of one epoch, indices growing."""
    group: list[Figures] = []
    for row in rows:
        if group and (
            len(group) >= MOST_ROWS
            or row.start_ns != group[-1].end_ns
            or row.epoch != group[-1].epoch
            or row.index - row.count < group[-1].index
        ):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _columns(rows: Sequence[Mapping[str, V]], missing: V) -> dict[str, tuple[V, ...]]:
    """A column a name, its rows filled up where a row lacks it."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: tuple(row.get(name, missing) for row in rows) for name in names}


def _or_none(rows: Sequence[dict[str, int]]) -> Sequence[Mapping[str, int | None]]:
    """A row of the device's times that were not taken stands as unknown, a part left out as 0."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name, 0) if row else None for name in names} for row in rows]


def finite(value: float) -> float | None:
    """A logged value as a journal has it; None where it cannot."""
    if not math.isfinite(value) or abs(value) > 1e30:
        return None
    return float(f"{value:.6g}")
