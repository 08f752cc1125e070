"""Growth as a power: y = c·x^k fitted over measured points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Power:
    """The exponent, and the smallest and largest x that it was fitted over."""

    exponent: float
    low: float
    high: float
    points: int


def fit_power(points: Sequence[tuple[float, float]], largest: int = 3) -> Power | None:
    """Least squares in log-log over the `largest` points of largest x, where growth has settled.

    None below two different points with positive x and y.
    """
    usable = sorted((x, y) for x, y in points if x > 0 and y > 0)[-largest:]
    if len({x for x, _ in usable}) < 2:
        return None
    logs = [(math.log(x), math.log(y)) for x, y in usable]
    mean_x = math.fsum(x for x, _ in logs) / len(logs)
    mean_y = math.fsum(y for _, y in logs) / len(logs)
    above = math.fsum((x - mean_x) * (y - mean_y) for x, y in logs)
    below = math.fsum((x - mean_x) ** 2 for x, _ in logs)
    return Power(above / below, usable[0][0], usable[-1][0], len(usable))
