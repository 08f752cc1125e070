"""SVG by hand: text, axes, legend, and one style for light, dark and print.

Figures have transparent grounds and take every colour from a class, so that one file is legible on
paper and on a dark page. A plotting library is not used: those that draw intervals and logarithmic
axes on their own pages weigh more than all of llmprof, and none colours by the reader's scheme.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from llmprof.core.document.palette import DARK_MEMORY, DARK_PHASES, LIGHT_MEMORY, LIGHT_PHASES
from llmprof.core.report.table import Table

WIDTH = 760
INK = {
    "ink": ("#1f2730", "#d6dde6"),
    "soft": ("#5b6572", "#98a3b1"),
    "rule": ("#d5dae1", "#39424f"),
}
Point = tuple[float, float]
# Kernel classes, the screen's hues in another order.
CLASS_COLOURS = {
    "GEMM": "memory-parameters",
    "attention": "memory-activations",
    "softmax": "memory-gradients",
    "norm": "memory-autocast-copies",
    "elementwise": "memory-temporaries",
    "reduction": "memory-workspace",
    "copy": "memory-inputs-and-buffers",
    "memset": "phase-zero-grad",
    "optimizer": "memory-optimizer-state",
    "other": "phase-loss",
}
SERIES = (
    "phase-forward",
    "phase-backward",
    "phase-optimizer",
    "phase-loss",
    "memory-optimizer-state",
    "memory-temporaries",
    "memory-workspace",
    "phase-zero-grad",
)


@dataclass(frozen=True)
class Figure:
    """A picture: its short name, what it shows, the drawing, and its data as a table."""

    name: str
    caption: str
    drawing: str  # the SVG element, without its style
    data: Table

    def document(self) -> str:
        """A file of its own."""
        head, rest = self.drawing.split(">", 1)
        return f"{head}><style>{style()}</style>{rest}\n"


def style() -> str:
    """The colours of all figures, for light, dark and print."""
    light = {**LIGHT_PHASES, **LIGHT_MEMORY}
    dark = {**DARK_PHASES, **DARK_MEMORY}
    day = _rules(light, {name: pair[0] for name, pair in INK.items()})
    night = _rules(dark, {name: pair[1] for name, pair in INK.items()})
    return (
        "svg.fig{font:11.5px system-ui,sans-serif}"
        f"{day}@media screen and (prefers-color-scheme:dark){{{night}}}"
    )


def _rules(colours: dict[str, str], ink: dict[str, str]) -> str:
    filled = "".join(
        f".fig .{name}{{fill:{value};stroke:{value}}}" for name, value in colours.items()
    )
    return (
        f"{filled}.fig text{{fill:{ink['ink']};stroke:none}}.fig .soft{{fill:{ink['soft']}}}"
        f".fig .axis{{stroke:{ink['soft']};fill:none}}.fig .rule{{stroke:{ink['rule']};fill:none}}"
        f".fig .bar{{stroke:{ink['ink']};fill:none}}.fig .line{{fill:none;stroke-width:2}}"
        ".fig .area,.fig .box{stroke:none}"
    )


def drawing(title: str, height: float, parts: Iterable[str]) -> str:
    """The SVG element."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fig" viewBox="0 0 {WIDTH} {height:g}" '
        f'width="{WIDTH}" height="{height:g}" role="img"><title>{escape(title)}</title>'
        f"{''.join(parts)}</svg>"
    )


def text(x: float, y: float, words: str, anchor: str = "start", more: str = "") -> str:
    """Words at a point."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{INK["ink"][0]}"{more}>'
        f"{escape(words)}</text>"
    )


def line(start: Point, end: Point, name: str, more: str = "") -> str:
    """A straight line of a class; the last of several gives the colour."""
    stroke = colour(name.rsplit(maxsplit=1)[-1])
    return (
        f'<path class="{name}" fill="none" stroke="{stroke}" '
        f'd="M{start[0]:.1f},{start[1]:.1f}L{end[0]:.1f},{end[1]:.1f}"{more}/>'
    )


# Outlines within a circle of radius 1; a series keeps its shape where its colour is not seen.
SHAPES: tuple[tuple[Point, ...], ...] = (
    ((-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)),
    ((0, -1), (0.95, 0.8), (-0.95, 0.8)),
    ((0, -1.1), (1.1, 0), (0, 1.1), (-1.1, 0)),
    ((0, 1), (0.95, -0.8), (-0.95, -0.8)),
    ((-0.9, -0.9), (0.9, 0.9), (0.9, -0.9), (-0.9, 0.9)),
    ((-0.9, -0.9), (0.9, 0.9), (-0.9, 0.9), (0.9, -0.9)),
    (
        (-1.2, -0.3),
        (-0.3, -0.3),
        (-0.3, -1.2),
        (0.3, -1.2),
        (0.3, -0.3),
        (1.2, -0.3),
        (1.2, 0.3),
        (0.3, 0.3),
        (0.3, 1.2),
        (-0.3, 1.2),
        (-0.3, 0.3),
        (-1.2, 0.3),
    ),
)


def marker(centre: Point, name: str, shape: int, size: float = 4) -> str:
    """A series' mark: a circle for the first shape, then one outline a shape."""
    (x, y), hue = centre, colour(name)
    if shape % (len(SHAPES) + 1) == 0:
        return f'<circle class="{name}" fill="{hue}" cx="{x:.1f}" cy="{y:.1f}" r="{size - 0.5:g}"/>'
    outline = SHAPES[shape % (len(SHAPES) + 1) - 1]
    points = " ".join(f"{x + size * dx:.1f},{y + size * dy:.1f}" for dx, dy in outline)
    return f'<polygon class="{name}" fill="{hue}" points="{points}"/>'


def box(corner: Point, size: Point, name: str, title: str = "") -> str:
    """A filled rectangle; its title shows under the pointer."""
    (x, y), (width, height) = corner, size
    inner = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect class="box {name}" fill="{colour(name)}" x="{x:.1f}" y="{y:.1f}" '
        f'width="{max(width, 0):.1f}" height="{height:.1f}">{inner}</rect>'
    )


def legend(names: Sequence[tuple[str, str]], left: float, y: float, across: int = 4) -> list[str]:
    """Names with their colours' classes, so many a row."""
    step = (WIDTH - left - 10) / across
    parts = []
    for at, (label, name) in enumerate(names):
        x, down = left + (at % across) * step, y + 18 * (at // across)
        parts += [box((x, down - 9), (10, 10), name), text(x + 15, down, label)]
    return parts


def colour(name: str) -> str:
    """A class's colour on paper, for readers that know no styles."""
    known = {**LIGHT_PHASES, **LIGHT_MEMORY, "rule": INK["rule"][0], "axis": INK["soft"][0]}
    return known.get(name, INK["ink"][0])


def nice_ticks(most: float, about: int = 5) -> list[float]:
    """Round values from 0 to at least `most`."""
    if most <= 0:
        return [0.0, 1.0]
    raw = most / about
    scale = 10.0 ** math.floor(math.log10(raw))
    step = next(scale * each for each in (1, 2, 2.5, 5, 10) if scale * each >= raw * 0.999)
    return [round(step * at, 12) for at in range(math.ceil(most / step * 0.999999) + 1)]


def decades(low: float, high: float) -> list[float]:
    """Powers of ten from at or below `low` to at or above `high`."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]
