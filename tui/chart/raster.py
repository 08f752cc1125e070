"""Dots into characters: braille, 2 x 4 dots a cell, or one letter a cell in ASCII."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from llmprof.tui.chart.envelope import LowHigh

BRAILLE = 0x2800
_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
DOTS_ACROSS, DOTS_DOWN = 2, 4
# Bits of the dots from one row of a cell to another, by column of dots, first and last row.
_SPANS = [
    [[sum(bits[first : last + 1]) for last in range(DOTS_DOWN)] for first in range(DOTS_DOWN)]
    for bits in _BITS
]


class Raster:
    """A grid of cells on which series are drawn; the last one to touch a cell owns it."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.masks = [[0] * width for _ in range(height)]
        self.owners = [[-1] * width for _ in range(height)]

    def vertical(self, x: int, top: int, bottom: int, owner: int) -> None:
        """Dots from row top to row bottom, both included, in dot column x; clipped."""
        cell = x // DOTS_ACROSS
        top = top if top > 0 else 0
        bottom = bottom if bottom < self.height * DOTS_DOWN else self.height * DOTS_DOWN - 1
        if not 0 <= cell < self.width or top > bottom:
            return
        spans = _SPANS[x % DOTS_ACROSS]
        first, last = top // DOTS_DOWN, bottom // DOTS_DOWN
        if first == last:  # most of what is drawn
            self.masks[first][cell] |= spans[top % DOTS_DOWN][bottom % DOTS_DOWN]
            self.owners[first][cell] = owner
            return
        for y in range(first, last + 1):
            start = top % DOTS_DOWN if y == first else 0
            end = bottom % DOTS_DOWN if y == last else DOTS_DOWN - 1
            self.masks[y][cell] |= spans[start][end]
            self.owners[y][cell] = owner


def to_row(value: float, low: float, high: float, dots: int) -> int:
    """Dot row of a value, 0 at the top; beyond the limits: the edge."""
    share = (value - low) / (high - low)
    return min(dots - 1, max(0, round((1 - share) * (dots - 1))))


def draw_line(
    raster: Raster,
    columns: Sequence[LowHigh],
    limits: tuple[float, float],
    owner: int,
    *,
    fill: bool = False,
    reach: int | None = None,
    unknown: Collection[int] = (),
) -> None:
    """Draw ranges as a joined line, or filled down to the lower limit.

    Empty columns between two values are bridged by a straight line when they are at most
    `reach` (None: any number) and none of them is unknown.
    """
    dots = raster.height * DOTS_DOWN
    before: tuple[int, int, int] | None = None
    for x, column in enumerate(columns):
        if column is None:
            if x in unknown:
                before = None
            continue
        low, high = column
        top = to_row(high, *limits, dots)
        bottom = top if low == high else to_row(low, *limits, dots)
        if before is not None and (reach is None or x - before[0] <= reach + 1):
            touching = before[2] >= top and before[1] <= bottom and x - before[0] == 1
            if not touching:
                _bridge(raster, before, (x, top, bottom), owner, fill)
        raster.vertical(x, top, dots - 1 if fill else bottom, owner)
        before = (x, top, bottom)


def _bridge(
    raster: Raster,
    one: tuple[int, int, int],
    other: tuple[int, int, int],
    owner: int,
    fill: bool,
) -> None:
    x0, top0, bottom0 = one
    x1, top1, bottom1 = other
    y0 = bottom0 if top1 > bottom0 else top0
    y1 = top1 if top1 > bottom0 else bottom1
    if top1 <= bottom0 and top0 <= bottom1:
        y1 = y0
    span = x1 - x0
    last = y0
    for x in range(x0 + 1, x1 + 1):
        y = round(y0 + (y1 - y0) * (x - x0) / span)
        low, high = min(last, y), max(last, y)
        raster.vertical(x, low, raster.height * DOTS_DOWN - 1 if fill else high, owner)
        last = y
