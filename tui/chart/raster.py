"""Dots into characters: braille, 2 x 4 dots a cell, or one letter a cell in ASCII."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.tui.chart.envelope import Column

BRAILLE = 0x2800
_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
ACROSS, DOWN = 2, 4


class Raster:
    """A grid of cells on which series are drawn; the last one to touch a cell owns it."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.masks = [[0] * width for _ in range(height)]
        self.owners = [[-1] * width for _ in range(height)]

    def vertical(self, x: int, top: int, bottom: int, owner: int) -> None:
        """Dots from row top to row bottom, both included, in dot column x; clipped."""
        if not 0 <= x < self.width * ACROSS:
            return
        bits, cell = _BITS[x % ACROSS], x // ACROSS
        for y in range(max(0, top), min(self.height * DOWN - 1, bottom) + 1):
            self.masks[y // DOWN][cell] |= bits[y % DOWN]
            self.owners[y // DOWN][cell] = owner


def to_row(value: float, low: float, high: float, dots: int) -> int:
    """Dot row of a value, 0 at the top; beyond the limits: the edge."""
    share = (value - low) / (high - low)
    return min(dots - 1, max(0, round((1 - share) * (dots - 1))))


def draw(
    raster: Raster,
    columns: Sequence[Column],
    limits: tuple[float, float],
    owner: int,
    *,
    fill: bool = False,
    reach: int | None = None,
) -> None:
    """Draw ranges as a joined line, or filled down to the lower limit.

    Empty columns between two values are bridged by a straight line when they are at most
    `reach` (None: any number).
    """
    dots = raster.height * DOWN
    previous: tuple[int, int, int] | None = None
    for x, column in enumerate(columns):
        if column is None:
            continue
        top = to_row(column[1], *limits, dots)
        bottom = to_row(column[0], *limits, dots)
        if previous is not None and (reach is None or x - previous[0] <= reach + 1):
            _bridge(raster, previous, (x, top, bottom), owner, fill)
        raster.vertical(x, top, dots - 1 if fill else bottom, owner)
        previous = (x, top, bottom)


def _bridge(
    raster: Raster,
    one: tuple[int, int, int],
    other: tuple[int, int, int],
    owner: int,
    fill: bool,
) -> None:
    x0, top0, bottom0 = one
    x1, top1, bottom1 = other
    if bottom0 >= top1 and top0 <= bottom1 and x1 - x0 == 1:
        return  # they touch
    y0 = bottom0 if top1 > bottom0 else top0
    y1 = top1 if top1 > bottom0 else bottom1
    if top1 <= bottom0 and top0 <= bottom1:
        y1 = y0
    span = x1 - x0
    last = y0
    for x in range(x0 + 1, x1 + 1):
        y = round(y0 + (y1 - y0) * (x - x0) / span)
        low, high = min(last, y), max(last, y)
        raster.vertical(x, low, raster.height * DOWN - 1 if fill else high, owner)
        last = y
