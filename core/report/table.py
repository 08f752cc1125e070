"""A table as data: columns with units, cells with their uncertainty; formats are elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A number whose digits follow from its uncertainty (same unit); None prints as n/a."""

    value: float | None
    uncertainty: float | None = None


class Prose(str):
    """Text of our own that may hold `code`; any other text is shown character by character."""

    __slots__ = ()


MOST_PLACES = 12  # decimal places of the smallest figure

Cell = str | int | float | Figure | None


@dataclass(frozen=True)
class Column:
    """One column: its heading, its unit (one a column) and whether it holds numbers."""

    header: str
    unit: str = ""
    numeric: bool = True

    @property
    def heading(self) -> str:
        """Heading with the unit."""
        return f"{self.header} ({self.unit})" if self.unit else self.header


@dataclass(frozen=True)
class Table:
    """A titled table; `notes` are sentences below it; a folded one is long and may be hidden."""

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    folded: bool = False
    number: str = ""  # its row in the field's list of tables: M02

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.key}: a row of {len(row)} cells")


def decimals(value: float, uncertainty: float | None) -> int:
    """Decimal places that show two significant digits of the uncertainty, or four of the value.

    At most 6, so that no figure pretends to more than the clocks give.
    """
    if uncertainty is not None and uncertainty > 0:
        wanted = 1 - math.floor(math.log10(uncertainty))
    elif value:
        wanted = 3 - math.floor(math.log10(abs(value)))
    else:
        wanted = 0
    return max(0, min(6, wanted))


def format_cell(cell: Cell) -> str:
    """A cell as text."""
    match cell:
        case None:
            return "n/a"
        case str():
            return cell
        case bool():
            return "yes" if cell else "no"
        case int():
            return f"{cell:,}"
        case float():
            return format_number(cell)
        case Figure(value=None):
            return "n/a"
        case Figure(value=value, uncertainty=uncertainty):
            return format_number(value, uncertainty)


def format_number(value: float | None, uncertainty: float | None = None) -> str:
    """A number with the digits that its uncertainty allows; never 0.000 for what is not zero."""
    if value is None or not math.isfinite(value):
        return "n/a"
    places = decimals(value, uncertainty)
    text = f"{value:,.{places}f}"
    if value and not any(digit in text for digit in "123456789"):
        return _smallest(value)
    return text


def _smallest(value: float) -> str:
    """A value too small for its digits: its first one, as a plain decimal."""
    places = -math.floor(math.log10(abs(value)))
    return f"{value:.{places}f}" if places <= MOST_PLACES else f"under 1e-{MOST_PLACES}"


def interval(low: float, high: float) -> str:
    """0.92 to 1.31: both ends with the digits that the interval's width allows, at least two."""
    half = (high - low) / 2
    return f"{_end(low, half)} to {_end(high, half)}"


def _end(value: float, half: float) -> str:
    own = 0.05 * abs(value) if value else half
    return format_number(value, min(half, own) if half else own)


def with_spread(mean: float, std: float | None, ci95: float | None) -> str:
    """mean ± std with the digits that the mean's confidence interval allows."""
    if std is None:
        return format_number(mean)
    places = decimals(mean, ci95)
    return f"{mean:,.{places}f} ± {std:,.{places}f}"


def varying(rows: Sequence[Sequence[Cell]], column: int) -> bool:
    """Whether a column holds more than one value."""
    return len({str(row[column]) for row in rows}) > 1
