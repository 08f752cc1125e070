"""Axis limits that stay put, and the unit and digits in which an axis is written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from llmprof.tui.chart.ticks import nice_ceiling

ScaleUnit = Literal["ms", "B", "%", "W", "°C", "MHz", "s", ""]

AXIS_LIMITS = (1.0, 1.2, 1.6, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
LONGEST_MS = 100_000  # from here on a step is read in seconds
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SHRINK = 0.45  # a limit is lowered only when the data uses less of it than this


class StickyLimit:
    """The upper end of an axis from zero: grows at once, shrinks only when far too high."""

    def __init__(self, fixed: float | None = None) -> None:
        self._fixed = fixed
        self._limit = 0.0

    def update(self, highest: float | None) -> float:
        """The limit for data whose highest finite value is given; 1 while there is none."""
        if self._fixed is not None:
            return self._fixed
        if highest is None or not math.isfinite(highest) or highest <= 0:
            return self._limit or 1.0
        if highest > self._limit or highest < _SHRINK * self._limit:
            self._limit = nice_ceiling(highest * 1.05, AXIS_LIMITS)
        return self._limit


@dataclass(frozen=True)
class Scale:
    """How the numbers of an axis are written: divided by `divisor`, followed by `unit`."""

    unit: str
    divisor: float
    on_ticks: bool = False  # the unit stands at every tick, where no heading names it

    def tick(self, value: float) -> str:
        """A tick, in as few digits as its value needs."""
        number = f"{value / self.divisor:,.6g}"
        return f"{number} {self.unit}" if self.on_ticks else number

    def figure(self, value: float | None) -> str:
        """A measured value with four significant digits, a dash when unknown."""
        if value is None or not math.isfinite(value):
            return "–"
        shown = value / self.divisor
        places = 3 - math.floor(math.log10(abs(shown))) if shown else 1
        return f"{shown:,.{min(3, max(0, places))}f}"


def scale_for(unit: ScaleUnit, limit: float) -> Scale:
    """The unit in which an axis up to `limit` reads best."""
    if unit == "B":
        power = min(5, max(0, math.floor(math.log(max(limit, 1), 1024) + 1e-9)))
        return Scale(_BINARY[power], 1024.0**power)
    if unit == "ms":
        return Scale("s", 1000.0) if limit >= LONGEST_MS else Scale("ms", 1.0)
    return Scale(unit, 1.0)
