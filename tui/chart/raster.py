"""Dots into characters: braille, 2 x 4 dots a cell, or one letter a cell in ASCII."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from llmprof.tui.chart.envelope import LowHigh

BRAILLE = 0x2800
_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
DOTS_ACROSS, DOTS_DOWN = 2, 4
# Bits of the dots from one row of a cell to another, by column of dots, first and last row.
_SPANS = [
    [[sum(bits[first : last + 1]) for last in range(DOTS_DOWN)] for first in range(DOTS_DOWN)]
    for bits in _BITS
]


_DOTS = [mask.bit_count() for mask in range(256)]
SEEN_SHARE = 0.25  # of its cells that a line must own to be seen


class Raster:
    """A grid of cells on which one series is drawn."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.masks = [[0] * width for _ in range(height)]

    def vertical(self, x: int, top: int, bottom: int) -> None:
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
            return
        for y in range(first, last + 1):
            start = top % DOTS_DOWN if y == first else 0
            end = bottom % DOTS_DOWN if y == last else DOTS_DOWN - 1
            self.masks[y][cell] |= spans[start][end]


@dataclass(frozen=True)
class Merged:
    """Series over one another: the dots and the owner of each cell, and which owner hides which.

    A cell has one colour, so it shows the dots of one series alone: the one with the fewest there,
    which would else be lost in the other; of equal ones the one drawn last.
    """

    masks: list[list[int]]
    owners: list[list[int]]
    hidden: dict[int, int]


def merge(rasters: Sequence[Raster], width: int, height: int) -> Merged:
    """Rasters of one size, the first at the bottom."""
    masks = [[0] * width for _ in range(height)]
    owners = [[-1] * width for _ in range(height)]
    for owner, raster in enumerate(rasters):
        for row, owned, drawn in zip(masks, owners, raster.masks, strict=True):
            if not any(drawn):  # most rows of a line
                continue
            for x, mask in enumerate(drawn):
                if mask and (not row[x] or _DOTS[mask] <= _DOTS[row[x]]):
                    row[x], owned[x] = mask, owner
    hidden = {}
    for owner, raster in enumerate(rasters):
        cells = sum(width - drawn.count(0) for drawn in raster.masks)
        if cells and sum(owned.count(owner) for owned in owners) < SEEN_SHARE * cells:
            hidden[owner] = _most_over(owner, raster, owners)
    return Merged(masks, owners, hidden)


def _most_over(owner: int, raster: Raster, owners: Sequence[Sequence[int]]) -> int:
    """The owner of most of a series' cells besides the series itself."""
    over = Counter(
        other
        for owned, drawn in zip(owners, raster.masks, strict=True)
        for other, mask in zip(owned, drawn, strict=True)
        if mask and other != owner
    )
    return over.most_common(1)[0][0]


def to_row(value: float, low: float, high: float, dots: int) -> int:
    """Dot row of a value, 0 at the top; beyond the limits: the edge; between equal ones: mid."""
    share = (value - low) / (high - low) if high > low else 0.5
    return min(dots - 1, max(0, round((1 - share) * (dots - 1))))


def draw_line(
    raster: Raster,
    columns: Sequence[LowHigh],
    limits: tuple[float, float],
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
                _bridge(raster, before, (x, top, bottom), fill)
        raster.vertical(x, top, dots - 1 if fill else bottom)
        before = (x, top, bottom)


def _bridge(
    raster: Raster,
    one: tuple[int, int, int],
    other: tuple[int, int, int],
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
        raster.vertical(x, low, raster.height * DOTS_DOWN - 1 if fill else high)
        last = y
