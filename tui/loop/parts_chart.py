"""Parts of a step over time, stacked, with their means beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmprof.core.figures.loops import parts
from llmprof.core.figures.part_words import part_words
from llmprof.core.report.loops import in_order
from llmprof.core.state.loops import LoopState
from llmprof.core.system.text import clock
from llmprof.tui.chart.areas import Layer, StackedAreas, render_areas
from llmprof.tui.chart.cells import Row
from llmprof.tui.chart.scale import StickyLimit, scale_for
from llmprof.tui.chart.ticks import time_label, time_step
from llmprof.tui.kit.canvas import Canvas, heading, row_length
from llmprof.tui.kit.table_cells import fit
from llmprof.tui.loop.window import Span, part_columns

LOOP_GUTTER = 7
WORDS = 20  # "before the optimizer"
TABLE_WIDTH = WORDS + 16
ROLES = {
    "between": "part between",
    "input": "part input",
    "forward": "part forward",
    "loss": "part loss",
    "backward": "part backward",
    "before": "part before",
    "optimizer": "part optimizer",
    "after": "part after",
}
OWN_ROLES = ("part own", "part other")  # of a user's phases, in turns
LETTERS = dict(zip(ROLES, "wifLbcoa", strict=True))


@dataclass(frozen=True)
class LoopSight:
    """A rank, the time that is shown of it, and this moment."""

    loop: LoopState
    length_ns: int
    end_ns: int
    now_ns: int | None

    def span(self, columns: int) -> Span:
        """The stretch in sight, in columns."""
        return Span.up_to(self.end_ns, self.length_ns, columns)


def part_role(name: str, names: Sequence[str]) -> str:
    """The role of a part's colour."""
    return ROLES.get(name) or OWN_ROLES[_own(names).index(name) % len(OWN_ROLES)]


def part_letter(name: str, names: Sequence[str]) -> str:
    """What stands for a part where there are no colours; for the user's phases a digit."""
    return LETTERS.get(name) or str((_own(names).index(name) + 1) % 10)


def _own(names: Sequence[str]) -> list[str]:
    """The phases that the user named."""
    return [each for each in names if each not in ROLES]


class PartsChart(Canvas):
    """What a step's wall time is made of, over the time in sight."""

    DEFAULT_CSS = """
    PartsChart { height: 1fr; min-height: 7; }
    """

    def __init__(self) -> None:
        super().__init__(id="loop-parts")
        self._sight: LoopSight | None = None
        self._limit = StickyLimit()

    def show(self, sight: LoopSight | None) -> None:
        """Take what is in sight."""
        self._sight = sight
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading; the areas at the left, the parts' names, means and shares at the right."""
        sight, look = self._sight, self.look
        if sight is None or not len(sight.loop.rows):
            said = "no step has ended yet"
            return [heading(look, width, "Parts of a step", "ms"), [(said, "muted")]]
        body = width - TABLE_WIDTH - LOOP_GUTTER - 2
        span = sight.span(body)
        found = part_columns(sight.loop, span)
        limit = self._limit.update(found.typical or None)
        scale = scale_for("ms", limit)
        note = f"{scale.unit}, last {clock(span.seconds)}, host clock"
        title = heading(look, width, "Parts of a step", note, [("ms/step   %", "muted")])
        if not found.typical:
            return [title, [("no step ended in this time", "muted")]]
        layers = tuple(
            Layer(role, f"on {role}", part_letter(name, found.names))
            for name in found.names
            for role in (part_role(name, found.names),)
        )
        areas = StackedAreas(
            layers=layers,
            columns=[_within(column, limit) for column in found.columns],
            limit=limit,
            scale=scale,
            labels=_labels(span),
            gutter=LOOP_GUTTER,
            letters=self.colourless,
        )
        left = render_areas(areas, height, look.chart)[1:]
        return [title, *_beside(left, self._table(sight, span), width - TABLE_WIDTH)]

    def _table(self, sight: LoopSight, span: Span) -> list[Row]:
        """A row a part: its colour, mean and share in the time in sight; then the whole step."""
        loop = sight.loop
        start = loop.rows.row_at(span.start_ns)
        found = parts(loop, min(start, max(0, len(loop.rows) - 1)))
        names = in_order(loop.rows.parts, str)
        rows: list[Row] = []
        for part in reversed(in_order(found, lambda each: each.name)):
            mark = part_letter(part.name, names) if self.colourless else self.look.on
            words = self.look.text(part_words(part.name, apart=loop.started.model))
            rows.append(
                [
                    (f" {mark} ", part_role(part.name, names)),
                    (fit(words, WORDS, "left", self.look.ellipsis), "text"),
                    (f"{part.host_ms:>8.2f}", "text"),
                    (f"{100 * part.share:>4.0f}", "muted"),
                ]
            )
        whole = sum(part.host_ms for part in found)
        rows.append([(f"   {'step':<{WORDS}}{whole:>8.2f}", "title"), ("    ", "")])
        return rows


def _within(column: Sequence[float], limit: float) -> tuple[float, ...]:
    """A column cut at the limit, from the top."""
    out, left = [], limit
    for value in column:
        out.append(min(value, left))
        left -= out[-1]
    return tuple(out)


def _labels(span: Span) -> tuple[tuple[int, str], ...]:
    """Times before now, where they stand."""
    whole = span.seconds * (1 + 1e-6)  # whose columns were rounded down
    step = time_step(whole, max(2, span.columns // 10))
    labels = []
    ago = int(whole // step) * step
    while ago > 0:
        at = max(0, int((whole - ago) / whole * span.columns))
        labels.append((at, f"-{time_label(ago)}"))
        ago -= step
    return tuple(labels)


def _beside(left: Sequence[Row], right: Sequence[Row], width: int) -> list[Row]:
    """Two blocks of rows side by side, the left one filled up to a width."""
    out: list[Row] = []
    for at in range(max(len(left), len(right))):
        row = list(left[at]) if at < len(left) else []
        pad = width - row_length(row)
        out.append([*row, (" " * max(0, pad), ""), *(right[at] if at < len(right) else [])])
    return out
