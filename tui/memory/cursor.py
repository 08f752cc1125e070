"""What is live under the cursor of the memory timeline: level, phase, categories."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.events import MemoryTimeline
from llmprof.core.predict.byte_levels import CATEGORIES
from llmprof.tui.chart.cells import Row
from llmprof.tui.chart.scale import Scale, scale_for
from llmprof.tui.kit.canvas import Canvas, heading, row_length
from llmprof.tui.kit.format import milliseconds_text
from llmprof.tui.memory.chart import LETTERS, ORDER
from llmprof.tui.memory.track import TrackMoment

WIDEST = len(max(CATEGORIES, key=len))


class AtCursor(Canvas):
    """Beside the chart one line a category; under it, where the window is narrow, two lines."""

    DEFAULT_CSS = """
    AtCursor { width: 46; margin-left: 2; }
    """

    def __init__(self) -> None:
        super().__init__(id="at-cursor")
        self._event: MemoryTimeline | None = None
        self._moment: TrackMoment | None = None

    def show(self, event: MemoryTimeline | None, moment: TrackMoment | None) -> None:
        """Take the moment under the cursor, and the recording it is of."""
        self._event, self._moment = event, moment
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Where the cursor is, the level, every category that is ever live."""
        event, moment = self._event, self._moment
        if event is None or moment is None:
            return []
        scale = scale_for("B", event.peak_bytes)
        if height < 5:
            return self._lines(moment, scale, width)
        return self._listing(event, moment, scale, width)

    def _listing(
        self, event: MemoryTimeline, moment: TrackMoment, scale: Scale, width: int
    ) -> list[Row]:
        """From the top of the areas down."""
        head = f"{'':<{WIDEST + 2}}{scale.unit:>8}{'at peak':>9}"
        room = max(0, width - len(head) - 1)
        level = f"{'level':<{WIDEST + 2}}{scale.figure(moment.total):>8}"
        rows: list[Row] = [
            heading(self.look, width, "At the cursor", _where(moment)),
            [(head, "muted")],
            [(level, "title"), (f"{scale.figure(event.peak_bytes):>9}", "muted")],
        ]
        for name in reversed(ORDER):
            before = event.at_peak.get(name, 0)
            if before or moment.of(name):
                rows.append(self._category(name, moment, before, scale, room))
        return rows

    def _category(self, name: str, moment: TrackMoment, peak: int, scale: Scale, room: int) -> Row:
        size, total = moment.of(name), moment.total
        return [
            (self._swatch(name), name),
            (f"{name:<{WIDEST}}{scale.figure(size):>8}", "text" if size else "muted"),
            (f"{scale.figure(peak):>9} ", "muted"),
            (self.look.bar[0] * (round(room * size / total) if total else 0), name),
        ]

    def _lines(self, moment: TrackMoment, scale: Scale, width: int) -> list[Row]:
        """The same in running text, the largest category first."""
        rows: list[Row] = [
            [
                ("at the cursor  ", "title"),
                (f"{scale.figure(moment.total)} {scale.unit}", "text"),
                (f"  {_where(moment)}", "muted"),
            ]
        ]
        line: Row = []
        for name in sorted(filter(moment.of, CATEGORIES), key=moment.of, reverse=True):
            part: Row = [
                (self._swatch(name), name),
                (f"{name} ", "muted"),
                (f"{scale.figure(moment.of(name))}  ", "text"),
            ]
            if row_length([*line, *part]) > width + 2:
                rows.append(line)
                line = []
            line += part
        return [*rows, line]

    def _swatch(self, name: str) -> str:
        plain = self.colourless
        return f"{LETTERS[name]} " if plain else "■ "


def _where(moment: TrackMoment) -> str:
    time = f"{milliseconds_text(moment.t_us / 1000)} ms"
    if moment.span is None:
        return time
    return f"{time}, step {moment.span.step + 1} {moment.span.phase}"
