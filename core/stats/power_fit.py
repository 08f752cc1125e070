"""Growth as a power: y = c·x^k fitted over measured points."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Power:
    """The exponent, and the smallest and largest x that it was fitted over.

    half is the 95 % half-width that follows from the points' own, None where one has none.
    """

    exponent: float
    half: float | None
    low: float
    high: float
    points: int


@dataclass(frozen=True)
class Point:
    """One measured point; half is the half-width of y's interval, None if unknown."""

    x: float
    y: float
    half: float | None = None


def fit_power(points: Iterable[Point], largest: int = 3) -> Power | None:
    """Least squares in log-log over the `largest` points of largest x, where growth has settled.

    None below two different points with positive x and y.
    """
    usable = sorted((p for p in points if p.x > 0 and p.y > 0), key=lambda p: p.x)[-largest:]
    if len({point.x for point in usable}) < 2:
        return None
    xs, ys = (
        [math.log(v) for v in values] for values in zip(*((p.x, p.y) for p in usable), strict=True)
    )
    mean_x, mean_y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    below = math.fsum((x - mean_x) ** 2 for x in xs)
    weights = [(x - mean_x) / below for x in xs]  # of the points in the slope
    slope = math.fsum(w * (y - mean_y) for w, y in zip(weights, ys, strict=True))
    half: float | None = None
    if all(point.half is not None for point in usable):
        half = math.hypot(
            *(w * (p.half or 0.0) / p.y for w, p in zip(weights, usable, strict=True))
        )
    return Power(slope, half, usable[0].x, usable[-1].x, len(usable))
