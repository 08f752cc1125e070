"""Where an axis has its ticks: round numbers, round times."""

from __future__ import annotations

import math

from llmprof.core.system.text import clock

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200)


def nice_ceiling(value: float, steps: tuple[float, ...] = _STEPS) -> float:
    """The smallest of 1, 2, 2.5, 5 x 10^k that is at least `value` (positive, finite)."""
    exponent = math.floor(math.log10(value))
    base = 10.0**exponent
    return next((s * base for s in steps if s * base >= value * (1 - 1e-9)), 10 * base)


def round_ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high, at most `most`; the ends where no two of those lie between.

    An axis with fewer than two numbers says nothing.
    """
    if most < 2 or not high > low:
        return [low]
    step = nice_ceiling((high - low) / (most - 1))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [n * step for n in range(first, last + 1)] if last > first else [low, high]


def time_step(span_s: float, most: int) -> float:
    """Seconds between time ticks such that at most `most` fit a span."""
    wanted = span_s / max(1, most)
    if wanted < 1:
        return nice_ceiling(wanted) if wanted > 0 else 1.0
    return next((float(s) for s in _TIME_STEPS if s >= wanted), math.ceil(wanted / 86400) * 86400.0)


def time_label(seconds: float) -> str:
    """A tick on the time axis: 0:00.5, 0:12, 1:30, 2:05:00."""
    whole, part = divmod(round(abs(seconds), 6), 1)
    fraction = f"{part:.6g}"[1:] if whole < 60 and part else ""
    sign = "-" if seconds < 0 else ""
    return f"{sign}{clock(whole if fraction else abs(seconds))}{fraction}"
