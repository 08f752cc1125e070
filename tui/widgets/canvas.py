"""A widget of styled text rows that repaints only the cells that changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from llmprof.tui.chart.plot import Row
from llmprof.tui.look import Look

if TYPE_CHECKING:
    from llmprof.tui.app import LlmprofApp


class Canvas(Widget):
    """Rows of (text, role) runs; roles are those of palette.py, "role+cursor" adds a background.

    Text is written as it is: nothing is parsed as markup. draw() is called whenever the size
    or the data changed; subclasses return the rows, one a line.
    """

    DEFAULT_CSS = """
    Canvas { height: 1fr; }
    """
    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._rows: list[Row] = []
        self._strips: dict[int, Strip] = {}

    @property
    def look(self) -> Look:
        """The glyphs in use."""
        return cast("LlmprofApp", self.app).look

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Rows for a content area of this size."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Draw anew and refresh the spans that differ from what stands on the screen."""
        width, height = self.size
        if not width or not height or not self.is_attached:
            return
        plain = self.look.text
        rows = [[(plain(text), role) for text, role in row] for row in self.draw(width, height)]
        del rows[height:]
        rows += [[] for _ in range(height - len(rows))]
        if len(self._rows) != height:
            self._rows = rows
            self._strips.clear()
            self.refresh()
            return
        regions = []
        for y, (old, new) in enumerate(zip(self._rows, rows, strict=True)):
            if old != new:
                start, end = changed_span(old, new, width)
                regions.append(Region(start, y, end - start, 1))
                self._strips.pop(y, None)
        self._rows = rows
        if regions:
            self.refresh(*regions)

    def on_resize(self) -> None:
        """Another size: everything is drawn anew."""
        self._rows = []
        self.repaint()

    def notify_style_update(self) -> None:
        """Another theme, focus or class: forget styles."""
        super().notify_style_update()
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        """The strip of one line, from the cache when its row did not change."""
        strip = self._strips.get(y)
        if strip is None:
            row = self._rows[y] if y < len(self._rows) else []
            base, background = self.rich_style, self.background_colors[1]  # dear: once a line
            style = cast("LlmprofApp", self.app).palette.style
            segments = [Segment(text, style(role, base, background)) for text, role in row if text]
            strip = Strip(segments).adjust_cell_length(self.size.width, base).apply_style(base)
            self._strips[y] = strip
        return strip


def changed_span(old: Row, new: Row, width: int) -> tuple[int, int]:
    """First and one past the last column that differ, for rows padded with blanks to width."""
    one, other = _cells(old, width), _cells(new, width)
    if one is None or other is None:
        return 0, width
    start = next((x for x in range(width) if one[x] != other[x]), 0)
    end = next((x for x in range(width - 1, start - 1, -1) if one[x] != other[x]), start)
    return start, end + 1


def _cells(row: Row, width: int) -> list[tuple[str, str]] | None:
    """(character, role) a column; None when some character is not one column wide."""
    cells: list[tuple[str, str]] = []
    for text, role in row:
        if not text.isascii() and cell_len(text) != len(text):
            return None
        cells += [(char, role) for char in text]
    return (cells + [(" ", "")] * (width - len(cells)))[:width]


def row_length(row: Row) -> int:
    """Columns that a row takes."""
    return sum(cell_len(text) for text, _ in row)


def heading(look: Look, width: int, title: str, note: str = "", right: Row | None = None) -> Row:
    """A section's first line: title, a muted note, a quiet rule, and something at the right."""
    row: Row = [(look.text(title), "title")]
    if note:
        row.append((look.text(f" {note}"), "muted"))
    tail = right or []
    room = width - row_length(row) - row_length(tail) - (2 if tail else 1)
    if room < 1:
        return row
    row += [(" ", ""), (look.rule * room, "rule")]
    return [*row, (" ", ""), *tail] if tail else row
