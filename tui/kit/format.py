"""Numbers as people read them: digits that the uncertainty carries, binary memory, short times."""

from __future__ import annotations

import math

from llmprof.core.system.text import clock


def decimals_for(uncertainty: float | None, value: float) -> int:
    """Decimals that show two significant digits of the uncertainty, else four of the value."""
    scale = uncertainty if uncertainty else abs(value) / 100
    if not scale or not math.isfinite(scale):
        return 2
    return min(4, max(0, 1 - math.floor(math.log10(scale))))


def interval_text(mean: float | None, half: float | None) -> str:
    """Half the 95 % interval of a mean, "± 0.34", in the digits that it carries."""
    if mean is None or half is None:
        return "–"
    return f"± {half:,.{decimals_for(half, mean)}f}"


def mean_interval(mean: float | None, half: float | None) -> str:
    """A mean with its spread or interval, "98.21 ± 0.34"; a lone mean when there is none."""
    if mean is None:
        return "–"
    places = decimals_for(half, mean)
    if half is None:
        return f"{mean:,.{places}f}"
    return f"{mean:,.{places}f} ± {half:,.{places}f}"


def number_text(value: float | None, places: int = 1, unit: str = "") -> str:
    """A value with its unit, a dash when unknown."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:,.{places}f}{' ' + unit if unit else ''}"


def milliseconds_text(value: float | None) -> str:
    """A time in milliseconds with four significant digits."""
    if value is None or not math.isfinite(value):
        return "–"
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.{decimals_for(None, value)}f}"


def memory_text(size: float | None) -> str:
    """Bytes in MiB or GiB."""
    if size is None or not math.isfinite(size):
        return "–"
    if size >= 2**30:
        return f"{size / 2**30:.2f} GiB"
    return f"{size / 2**20:.0f} MiB"


def bytes_text(value: float | None) -> str:
    """Bytes with four significant digits, in the unit that reads best."""
    if value is None or not math.isfinite(value):
        return "–"
    from llmprof.tui.chart.scale import scale_for  # not needed for the first frame

    scale = scale_for("B", value)
    return f"{value:.0f} B" if value < 1024 else f"{scale.figure(value)} {scale.unit}"


def count_text(value: float | None) -> str:
    """A large count in thousands, millions or billions."""
    if value is None:
        return "–"
    for limit, suffix in ((1e9, " B"), (1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.{1 if value < 100 * limit else 0}f}{suffix}"
    return f"{value:.0f}"


def clock_text(seconds: float | None) -> str:
    """A span of time as clocks show it: 0:08, 2:05, 1:02:05."""
    return "–" if seconds is None or not math.isfinite(seconds) else clock(seconds)


def percent_text(value: float | None, places: int = 1) -> str:
    """A share in percent."""
    return "–" if value is None else f"{value:.{places}f} %"


def sparkline(values: list[float], width: int, glyphs: str) -> str:
    """The newest values as a row of bars, scaled from lowest to highest; a blank is unknown."""
    shown = values[-width:]
    known = [value for value in shown if math.isfinite(value)]
    if not known:
        return ""
    low, high = min(known), max(known)
    scale = 1.0 if math.isfinite(high - low) else 0.5  # the span has to be a number
    low, high = scale * low, scale * high
    flat = high - low < 0.02 * abs(high) or high == low
    middle, top = glyphs[len(glyphs) // 2 - 1], len(glyphs) - 1

    def bar(value: float) -> str:
        if not math.isfinite(value):
            return " "
        return middle if flat else glyphs[round((scale * value - low) / (high - low) * top)]

    return "".join(map(bar, shown))
