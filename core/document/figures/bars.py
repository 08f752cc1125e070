"""Stacked horizontal bars, with the interval of each bar's end where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmprof.core.document.figures.svg import (
    WIDTH,
    Figure,
    box,
    drawing,
    legend,
    line,
    nice_ticks,
    text,
)
from llmprof.core.report.table import Column, Table
from llmprof.core.report.table import Figure as Number
from llmprof.core.system.numbers import format_number

LEFT, RIGHT, TOP, ROW = 220, 90, 14, 26
DASHES = ' stroke-dasharray="2 3"'


@dataclass(frozen=True)
class Bar:
    """One bar: its label, its parts by name, and the half-width of its end's interval.

    weak: the interval is drawn dashed, for it says less than others; mark: a word at its end;
    failed: the checks that say no to it, for which a star stands there.
    """

    label: str
    parts: dict[str, float]
    half: float | None = None
    weak: bool = False
    mark: str = ""
    failed: str = ""

    @property
    def whole(self) -> float:
        """Where it ends."""
        return sum(self.parts.values())


def stacked(
    name: str,
    caption: str,
    bars: Sequence[Bar],
    colours: dict[str, str],
    axis: str,
) -> Figure | None:
    """Bars of milliseconds one under another; None without bars."""
    shown = [bar for bar in bars if bar.whole > 0]
    if not shown:
        return None
    ticks = nice_ticks(max(bar.whole + (bar.half or 0.0) for bar in shown))
    scale = (WIDTH - LEFT - RIGHT) / ticks[-1]
    names = [each for each in colours if any(bar.parts.get(each) for bar in shown)]
    bottom = TOP + ROW * len(shown)
    parts = [line((LEFT + t * scale, TOP), (LEFT + t * scale, bottom), "rule") for t in ticks]
    parts += [text(LEFT + t * scale, bottom + 16, f"{t:,g}", "middle") for t in ticks]
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, bottom + 36, axis, "middle"))
    for at, bar in enumerate(shown):
        parts += _bar(bar, TOP + ROW * at, scale, {each: colours[each] for each in names})
    parts += legend([(each, colours[each]) for each in names], LEFT, bottom + 60)
    height = bottom + 60 + 18 * ((len(names) + 3) // 4)
    return Figure(name, caption, drawing(caption, height, parts), _data(name, caption, shown))


def _bar(bar: Bar, y: float, scale: float, colours: dict[str, str]) -> list[str]:
    parts = [text(LEFT - 8, y + ROW / 2 + 4, bar.label, "end")]
    x = float(LEFT)
    for name, hue in colours.items():
        value = bar.parts.get(name, 0.0)
        if value > 0:
            label = f"{bar.label}, {name}: {format_number(value)} ms"
            parts.append(box((x, y + 4), (value * scale, ROW - 8), hue, label))
            x += value * scale
    end = x
    if bar.half:
        low, high = x - bar.half * scale, x + bar.half * scale
        middle = y + ROW / 2
        dashes = DASHES if bar.weak else ""
        parts += [
            line((low, middle), (high, middle), "bar", dashes),
            line((low, middle - 4), (low, middle + 4), "bar"),
            line((high, middle - 4), (high, middle + 4), "bar"),
        ]
        end = high
    told = format_number(bar.whole, bar.half) + "*" * bool(bar.failed)
    parts.append(text(end + 6, y + ROW / 2 + 4, f"{told} {bar.mark}".rstrip()))
    return parts


def _data(name: str, caption: str, bars: Sequence[Bar]) -> Table:
    rows = tuple(
        (
            bar.label,
            part,
            Number(value),
            None if bar.half is None else Number(bar.half),
            "steps of one process" if bar.weak else "processes" if bar.half else "",
            bar.mark,
            bar.failed,
        )
        for bar in bars
        for part, value in bar.parts.items()
    )
    columns = (
        Column("Bar", numeric=False),
        Column("Part", numeric=False),
        Column("Value", "ms"),
        Column("95 % interval of the whole", "± ms"),
        Column("Interval between", numeric=False),
        Column("Pace set by", numeric=False),
        Column("Failed check", numeric=False),
    )
    return Table(name, caption, columns, rows)
