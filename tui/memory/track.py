"""A recorded timeline as the screen reads it: levels along an axis of time or of allocations."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from llmprof.core.memory.kept_timeline import Points
from llmprof.core.memory.picture_files import read_points
from llmprof.core.predict.byte_levels import CATEGORIES
from llmprof.core.system.text import clean

MOST_POINTS = 200_000  # a recording is thinned to a fiftieth of it


@dataclass(frozen=True)
class PhaseStretch:
    """A phase of a recorded step, along the axis."""

    step: int
    phase: str
    start: float
    end: float


@dataclass(frozen=True)
class TrackMoment:
    """What stands in a column: the position, the level by category, its phase if any."""

    x: float
    t_us: float
    levels: tuple[int, ...]
    span: PhaseStretch | None

    @property
    def total(self) -> int:
        """Bytes of all categories."""
        return sum(self.levels)

    def of(self, category: str) -> int:
        """Bytes of one category."""
        return self.levels[CATEGORIES.index(category)]


@dataclass(frozen=True)
class Track:
    """Points with their phases, by time in microseconds or by the count of changes."""

    points: Points
    by_time: bool = True

    @cached_property
    def xs(self) -> Sequence[int]:
        """Where each point lies."""
        return self.points.t_us if self.by_time else range(len(self.points.t_us))

    @cached_property
    def totals(self) -> list[int]:
        """Level at each point, bytes."""
        return [sum(column) for column in zip(*self.points.levels, strict=True)]

    @cached_property
    def spans(self) -> tuple[PhaseStretch, ...]:
        """Phases in order."""
        return tuple(
            PhaseStretch(step, clean(phase, 20), self._x(start), self._x(end))
            for step, phase, start, end in self.points.phases
        )

    @property
    def length(self) -> float:
        """Where the axis ends."""
        ends = [span.end for span in self.spans]
        return max(1.0, float(self.xs[-1]) if len(self.xs) else 0.0, *ends)

    @cached_property
    def peak_x(self) -> float:
        """Where the highest level was reached."""
        at = max(range(len(self.totals)), key=self.totals.__getitem__)
        return float(self.xs[at])

    def _x(self, t_us: int) -> float:
        return float(t_us) if self.by_time else float(bisect_left(self.points.t_us, t_us))

    def moments(self, begin: float, end: float, columns: int) -> list[TrackMoment]:
        """The highest moment of each of equal columns; a level holds until the next point."""
        edges = [begin + (end - begin) * at / columns for at in range(columns + 1)]
        places = [bisect_left(self.xs, edge) for edge in edges]
        places[-1] = max(places[-1], bisect_right(self.xs, end))
        out = []
        for at in range(columns):
            first = max(
                0, places[at] - (places[at] >= len(self.xs) or self.xs[places[at]] > edges[at])
            )
            last = max(first + 1, places[at + 1])
            out.append(
                self._moment(max(range(first, last), key=self.totals.__getitem__), edges[at])
            )
        return out

    def moment_at(self, x: float) -> TrackMoment:
        """The level at a position."""
        return self._moment(max(0, bisect_right(self.xs, x) - 1), x)

    def highest(self, span: PhaseStretch) -> float:
        """Where a phase reaches its highest level."""
        first = max(0, bisect_right(self.xs, span.start) - 1)
        last = max(first + 1, bisect_right(self.xs, span.end))
        at = max(range(first, last), key=self.totals.__getitem__)
        return max(float(self.xs[at]), span.start)

    def _moment(self, at: int, since: float) -> TrackMoment:
        x = max(float(self.xs[at]), since)
        t_us = float(self.points.t_us[at]) if not self.by_time else x
        span = next((s for s in reversed(self.spans) if s.start <= x <= s.end), None)
        return TrackMoment(x, t_us, tuple(level[at] for level in self.points.levels), span)


def read_track(run: Path, artifact: str) -> Track:
    """The timeline of a run's artifact, which is untrusted.

    Raises OSError, ValueError for a file that is missing, damaged or larger than any recording.
    """
    points = read_points(run, artifact)
    if not 0 < len(points.t_us) <= MOST_POINTS:
        raise ValueError(f"{clean(artifact, 60)} holds {len(points.t_us):,} points")
    times = points.t_us
    if times[0] < 0 or any(a > b for a, b in pairwise(times)):
        raise ValueError(f"{clean(artifact, 60)}: times are out of order")
    if any(level < 0 or level >> 60 for column in points.levels for level in column):
        raise ValueError(f"{clean(artifact, 60)}: a level is impossible")
    if times[-1] >> 60 or len(points.phases) > MOST_POINTS // 100:
        raise ValueError(f"{clean(artifact, 60)}: more than a recording has")
    return Track(points)
