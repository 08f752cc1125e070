"""Quantities as text: one unit for what stands together, and never a bare zero for a little."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

NOT_AVAILABLE = "n/a"
_LEAST = 0.001  # of the unit; what is less is said to be


@dataclass(frozen=True)
class AmountUnit:
    """A unit by its size in the metric's own, and the decimals that are usual for it."""

    name: str
    size: float = 1.0
    decimals: int = 0


_SCALES: dict[str, tuple[AmountUnit, ...]] = {  # by the metric's own unit, ascending
    "B": (
        AmountUnit("B"),
        AmountUnit("KiB", 2.0**10),
        AmountUnit("MiB", 2.0**20),
        AmountUnit("GiB", 2.0**30, 1),
    ),
    "B/s": (
        AmountUnit("B/s"),
        AmountUnit("KiB/s", 2.0**10),
        AmountUnit("MiB/s", 2.0**20, 1),
        AmountUnit("GiB/s", 2.0**30, 1),
    ),
    "J": (AmountUnit("J"), AmountUnit("kJ", 1e3, 1), AmountUnit("MJ", 1e6, 1)),
    "ms": (AmountUnit("ms", 1.0, 1),),
}


def unit_of(kind: str, values: Iterable[float | None]) -> AmountUnit:
    """The unit that suits the largest of some values of a metric whose own unit is `kind`."""
    most = max((abs(value) for value in values if value is not None), default=0.0)
    scale = _SCALES.get(kind, (AmountUnit(kind),))
    return next((unit for unit in reversed(scale) if most >= unit.size), scale[0])


def figure(value: float | None, unit: AmountUnit) -> str:
    """A value in a unit, without its name; with more digits where the usual ones would be 0."""
    if value is None:
        return NOT_AVAILABLE
    scaled = value / unit.size
    usual = f"{scaled:.{unit.decimals}f}"
    if not value or any(digit in usual for digit in "123456789"):
        return usual
    return f"{scaled:.1g}" if abs(scaled) >= _LEAST else f"<{_LEAST}"


def text(value: float | None, kind: str) -> str:
    """One value with the unit that suits it."""
    return together((value,), kind)


def together(values: Iterable[float | None], kind: str) -> str:
    """Values in one unit in a row, as in "96 / 0 / 5 %"; "n/a" once when none is known."""
    listed = tuple(values)
    if all(value is None for value in listed):
        return NOT_AVAILABLE
    unit = unit_of(kind, listed)
    return f"{' / '.join(figure(value, unit) for value in listed)} {unit.name}".rstrip()


def column(values: Iterable[float | None], kind: str) -> list[str]:
    """The cells of one column, all in one unit."""
    listed = tuple(values)
    unit = unit_of(kind, listed)
    return [
        NOT_AVAILABLE if value is None else f"{figure(value, unit)} {unit.name}".rstrip()
        for value in listed
    ]
