"""The timeline as an SVG picture: stacked areas, phase bands, the peak, a legend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from llmprof.core.memory.kept_timeline import Points
from llmprof.core.predict.byte_levels import CATEGORIES
from llmprof.core.system.numbers import as_given, significant
from llmprof.core.system.text import clean

WIDTH, HEIGHT = 1000, 420
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 64, 104
LEVEL = 0.05  # pixels: nearer corners are at one height
COLOURS = {
    "parameters": "#4c72b0",
    "gradients": "#dd8452",
    "optimizer state": "#8172b3",
    "activations": "#55a868",
    "autocast copies": "#64b5cd",
    "temporaries": "#c44e52",
    "workspace": "#937860",
    "inputs and buffers": "#8c8c8c",
}
_STYLE = "font-family:sans-serif;font-size:12px;fill:#222"


def draw_picture(points: Points, title: str) -> str:
    """An SVG document of a timeline's points. Names are cleaned and escaped."""
    plot = _Plot(points)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img">',
        f"<title>{escape(clean(title, 200))}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        _text(LEFT, 20, clean(title, 120), "font-weight:bold"),
        *plot.bands(),
        *plot.areas(),
        *plot.axes(),
        *plot.peak(),
        *plot.legend(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
        f'style="{_STYLE};{style}">{escape(text)}</text>'
    )


Corner = tuple[float, float]


def _bends(line: Sequence[Corner]) -> list[Corner]:
    """A line without the corners that lie on a level stretch of it."""
    return [
        corner
        for at, corner in enumerate(line)
        if not 0 < at < len(line) - 1
        or not abs(line[at - 1][1] - corner[1]) < LEVEL > abs(line[at + 1][1] - corner[1])
    ]


def _place(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


class _Plot:
    def __init__(self, points: Points) -> None:
        self.points = points
        self.unit, self.unit_name = _unit(points.peak)
        self.top = _nice(points.peak / self.unit) * self.unit
        self.span = max(points.t_us[-1], 1) if points.t_us else 1

    def x(self, t_us: float) -> float:
        """Where a time is drawn."""
        return LEFT + (WIDTH - LEFT - RIGHT) * t_us / self.span

    def y(self, size: float) -> float:
        """Where a level is drawn."""
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * size / self.top

    def bands(self) -> list[str]:
        """Phases as bands of two greys, named where there is room."""
        out = []
        for index, (step, phase, start, end) in enumerate(self.points.phases):
            left, right = self.x(start), self.x(end)
            fill = "#f2f2f2" if index % 2 else "#e4e4e4"
            label = escape(clean(f"step {step + 1}: {phase}", 60))
            out.append(
                f'<rect x="{left:.1f}" y="{TOP}" width="{max(right - left, 0.2):.1f}" '
                f'height="{HEIGHT - TOP - BOTTOM}" fill="{fill}"><title>{label}</title></rect>'
            )
            if right - left > 7 * len(phase):
                out.append(_text((left + right) / 2, TOP - 6, clean(phase, 20), anchor="middle"))
        return out

    def areas(self) -> list[str]:
        """One polygon a category from its top down to the axis, the topmost first.

        Each hides all but the stretch of the one before that lies above it.
        """
        points, bottom = self.points, self.y(0)
        shown = self._shown()
        below = [0.0] * len(shown)
        out: list[str] = []
        for name, levels in zip(CATEGORIES, points.levels, strict=True):
            if not any(levels):
                continue
            below = [b + levels[at] for b, at in zip(below, shown, strict=True)]
            line = _bends(
                [(self.x(points.t_us[at]), self.y(v)) for at, v in zip(shown, below, strict=True)]
            )
            ends = [(line[-1][0], bottom), (line[0][0], bottom)]
            path = " ".join(f"{_place(x)},{_place(y)}" for x, y in [*line, *ends])
            out.append(
                f'<polygon points="{path}" fill="{COLOURS[name]}">'
                f"<title>{escape(name)}</title></polygon>"
            )
        return out[::-1]

    def _shown(self) -> list[int]:
        """Points of which the picture consists: the highest and the lowest of every pixel."""
        totals = [sum(column) for column in zip(*self.points.levels, strict=True)]
        pixels: dict[int, list[int]] = {}
        for at, t_us in enumerate(self.points.t_us):
            pixels.setdefault(round(self.x(t_us)), []).append(at)
        chosen = {0, len(totals) - 1}
        for inside in pixels.values():
            chosen |= {max(inside, key=totals.__getitem__), min(inside, key=totals.__getitem__)}
        return sorted(chosen)

    def axes(self) -> list[str]:
        """Level and time with their units."""
        bottom = HEIGHT - BOTTOM
        out = [
            f'<path d="M{LEFT},{TOP}V{bottom}H{WIDTH - RIGHT}" fill="none" stroke="#222"/>',
            _text(LEFT, TOP - 24, f"requested memory ({self.unit_name})"),
            _text((LEFT + WIDTH - RIGHT) / 2, bottom + 34, "time (ms)", anchor="middle"),
        ]
        for fraction in range(5):
            size = self.top * fraction / 4
            out.append(_text(LEFT - 6, self.y(size) + 4, as_given(size / self.unit), anchor="end"))
        for t_ms in _round_steps(self.span / 1000):
            x = self.x(t_ms * 1000)
            out.append(f'<path d="M{x:.1f},{bottom}v4" stroke="#222"/>')
            anchor = "end" if x > WIDTH - RIGHT - 12 else "middle"
            out.append(_text(x, bottom + 16, as_given(t_ms), anchor=anchor))
        return out

    def peak(self) -> list[str]:
        """A mark at the peak with its bytes."""
        x, y = self.x(self.points.peak_t_us), self.y(self.points.peak)
        anchor = "end" if x > WIDTH / 2 else "start"
        label = f"peak {self.points.peak / self.unit:,.2f} {self.unit_name}"
        shift = -8 if anchor == "end" else 8
        return [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="none" stroke="#000"/>',
            _text(x + shift, max(y - 6, TOP + 12), label, "font-weight:bold", anchor),
        ]

    def legend(self) -> list[str]:
        """Every category that is drawn, with its bytes at the peak."""
        out = [_text(LEFT, HEIGHT - 50, "at the peak:")]
        named = zip(CATEGORIES, self.points.levels, self.points.at_peak, strict=True)
        shown = [(name, size) for name, levels, size in named if any(levels)]
        for index, (name, size) in enumerate(shown):
            x = LEFT + (index % 4) * 225
            y = HEIGHT - 30 + (index // 4) * 20
            out.append(
                f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{COLOURS[name]}"/>'
            )
            label = f"{name} {significant(size / self.unit, 4)} {self.unit_name}"
            out.append(_text(x + 18, y, label))
        return out


def _unit(size: int) -> tuple[int, str]:
    return (1 << 30, "GiB") if size >= 1 << 30 else (1 << 20, "MiB")


def _nice(value: float) -> float:
    """A round number at or above a value, divisible by four."""
    steps: Sequence[float] = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10)
    scale = 1.0
    while value > 10 * scale:
        scale *= 10
    while value <= scale and scale > 1e-6:
        scale /= 10
    return next(step * scale for step in steps if step * scale >= value * 0.999999)


def _round_steps(span: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from 0 to a span, at most nine of them."""
    scale = 10.0 ** math.floor(math.log10(span / 10))
    step = next(scale * each for each in (1, 2, 5, 10, 20) if span / (scale * each) <= 8)
    return [round(index * step, 9) for index in range(math.floor(span / step * 1.000001) + 1)]
