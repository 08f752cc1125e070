"""A table as data: columns with units, cells with their uncertainty; formats are elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmprof.core.system.numbers import format_number


@dataclass(frozen=True)
class Figure:
    """A number whose digits follow from its uncertainty (same unit); None prints as n/a."""

    value: float | None
    uncertainty: float | None = None


class Prose(str):
    """Text of our own that may hold `code`; any other text is shown character by character."""

    __slots__ = ()


LEAST_UNCERTAINTY = 0.01  # of rates and ratios: identical processes differ by about as much

Cell = str | int | float | Figure | None


@dataclass(frozen=True)
class Column:
    """One column: its heading, its unit (one a column), whether it holds numbers or sentences."""

    header: str
    unit: str = ""
    numeric: bool = True
    sentences: bool = False  # which are read, also where no line has room for them

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


def rate_figure(value: float | None, half: float | None = None) -> Figure:
    """A rate or a ratio with four digits at most: another process differs by more than the fifth.

    half: half-width of its interval, in its unit.
    """
    if value is None:
        return Figure(None)
    least = LEAST_UNCERTAINTY * abs(value)
    return Figure(value, max(half or least, least) or None)


def spread_figure(std: float | None, half: float | None = None) -> Figure:
    """A standard deviation with two digits, fewer where the mean's interval (half) is wide."""
    return Figure(std, max(half or 0.0, std or 0.0) or None)


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


def varying(rows: Sequence[Sequence[Cell]], column: int) -> bool:
    """Whether a column holds more than one value."""
    return len({str(row[column]) for row in rows}) > 1
