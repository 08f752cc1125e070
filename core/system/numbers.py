"""Numbers as text: plain decimals with the digits that they deserve, never powers of ten.

A value has the digits that its uncertainty allows and MOST_DIGITS at most, whole parts whole; both
ends of an interval have as many decimals.
"""

from __future__ import annotations

import math

MOST_PLACES = 12  # decimal places of the smallest figure
MOST_DIGITS = 4  # of a value: another process differs by more than the fifth, whatever one says


def decimals(value: float, uncertainty: float | None) -> int:
    """Decimal places that show two digits of the uncertainty and MOST_DIGITS of the value at most.

    At most 6, so that no figure pretends to more than the clocks give.
    """
    wanted = [6]
    if value:
        wanted.append(MOST_DIGITS - 1 - _magnitude(value))
    if uncertainty is not None and uncertainty > 0:
        wanted.append(1 - _magnitude(uncertainty))
    return max(0, min(wanted)) if len(wanted) > 1 else 0


def _magnitude(value: float) -> int:
    """The power of ten of a value's first digit."""
    return math.floor(math.log10(abs(value)))


def format_number(value: float | None, uncertainty: float | None = None) -> str:
    """A number with the digits that its uncertainty allows; never 0.000 for what is not zero."""
    if value is None or not math.isfinite(value):
        return "n/a"
    text = f"{value:,.{decimals(value, uncertainty)}f}"
    return text if value == 0 or _shows(text) else _smallest(value)


def significant(value: float, digits: int = 3) -> str:
    """A number to at most so many significant digits: 1.4, 0.022, 135; whole parts stay whole."""
    if not value or not math.isfinite(value):
        return format_number(value)
    places = digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{value:,.{max(0, min(MOST_PLACES, places))}f}"
    return _bare(text) if _shows(text) else _smallest(value)


def at_most(value: float, digits: int = 2) -> str:
    """An uncertainty to so many significant digits, rounded up: it is never shown smaller."""
    if not value or not math.isfinite(value):
        return format_number(value)
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - digits + 1)
    return significant(math.ceil(value / unit - 1e-9) * unit, digits)


def as_given(value: float) -> str:
    """A round number as it was chosen, without zeros behind it: 66.9, 3,352, 0.5."""
    text = f"{value:,.6f}"
    return _bare(text) if value == 0 or _shows(text) else _smallest(value)


def interval(low: float, high: float) -> str:
    """0.92 to 1.31: both ends with as many decimals, as the width allows.

    More only where an end that is not zero would read as zero, or unequal ends as equal ones.
    """
    places = decimals(max(abs(low), abs(high)), (high - low) / 2)
    while places < 6 and not _tell(low, high, places):
        places += 1
    return f"{low:,.{places}f} to {high:,.{places}f}"


def _tell(low: float, high: float, places: int) -> bool:
    """Whether so many decimals show the sign of both ends, and which is greater."""
    ends = [f"{end:.{places}f}" for end in (low, high)]
    signs = all(_shows(text) or not end for text, end in zip(ends, (low, high), strict=True))
    return signs and (ends[0] != ends[1] or low == high)


def _shows(text: str) -> bool:
    """Whether a text holds more than zeros."""
    return any(digit in text for digit in "123456789")


def _bare(text: str) -> str:
    """Without zeros behind the decimal point."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _smallest(value: float) -> str:
    """A value too small for its digits: its first one, as a plain decimal."""
    places = -math.floor(math.log10(abs(value)))
    least = f"0.{'0' * (MOST_PLACES - 1)}1"
    return f"{value:.{places}f}" if places <= MOST_PLACES else f"under {least}"
