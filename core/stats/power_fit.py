"""Growth as a power: y = c·x^k fitted over measured points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

FEWEST_POINTS = 3
LEAST_SPAN = 4.0  # of the largest x over the smallest


@dataclass(frozen=True)
class Power:
    """The exponent, and the smallest and largest x that it was fitted over.

    between: least and greatest exponent from one point to the next; far apart where no one power
    describes the points.
    """

    exponent: float
    between: tuple[float, float]
    low: float
    high: float
    points: int


@dataclass(frozen=True)
class Point:
    """One measured point."""

    x: float
    y: float


def fit_power(points: Iterable[Point], largest: int = FEWEST_POINTS) -> Power | None:
    """Least squares in log-log over the `largest` points of largest x, where growth has settled.

    None where that would be no finding: below FEWEST_POINTS different points with positive x and
    y, or over less than LEAST_SPAN in x.
    """
    known = {p.x: p for p in points if p.x > 0 and p.y > 0}
    usable = [known[x] for x in sorted(known)[-largest:]]
    if len(usable) < FEWEST_POINTS or usable[-1].x < LEAST_SPAN * usable[0].x:
        return None
    logs = [(math.log(p.x), math.log(p.y)) for p in usable]
    mean_x, mean_y = (math.fsum(each) / len(logs) for each in zip(*logs, strict=True))
    below = math.fsum((x - mean_x) ** 2 for x, _ in logs)
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in logs) / below
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(logs)]
    return Power(slope, (min(slopes), max(slopes)), usable[0].x, usable[-1].x, len(usable))
