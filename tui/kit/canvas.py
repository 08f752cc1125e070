"""A widget of styled text rows that repaints only the cells that changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.look import Look

if TYPE_CHECKING:
    from llmprof.tui.kit.host import KitHost
    from llmprof.tui.kit.roles import Palette


LONG_WORD = 24  # longer than any figure: such a word is cut where it must be


class Canvas(Widget):
    """Rows of (text, role) runs; roles are those of roles.py, "role+cursor" adds a background.

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
        self._ground: tuple[Style, Color] | None = None
        self._palette: Palette | None = None  # in whose colours the strips are
        self._first: Size | None = None  # what the first frame was drawn for, till it is resized

    @property
    def host(self) -> KitHost:
        """The app, as far as canvases need it."""
        return cast("KitHost", self.app)

    @property
    def look(self) -> Look:
        """The glyphs in use."""
        return self.host.look

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Rows for a content area of this size."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Draw anew and refresh the spans that differ from what stands on the screen."""
        width, height = self.size
        if not width or not height or not self.is_attached:
            return
        rows = self._drawn(width, height)
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

    def _drawn(self, width: int, height: int) -> list[Row]:
        """As many rows as there are lines."""
        rows = [whole_words(row, width) for row in list(self.draw(width, height))[:height]]
        if self.look.ascii:
            plain = self.look.text
            rows = [[(plain(text), role) for text, role in row] for row in rows]
        return rows + [[] for _ in range(height - len(rows))]

    def on_resize(self) -> None:
        """Another size: everything is drawn anew, but for what the first frame shows already."""
        first, self._first = self._first, None
        if first != self.size:
            self._rows = []
            self.repaint()

    def watch_has_focus(self, has_focus: bool) -> None:
        """Show or hide the cursor; Focus and Blur come before it is known who has the keys."""
        super().watch_has_focus(has_focus)
        if self.can_focus:
            self.repaint()

    @property
    def colourless(self) -> bool:
        """Whether areas have to be told apart without colours, by letters."""
        return self.look.ascii or self.app.no_color

    def restyle(self) -> None:
        """Another theme: everything is drawn anew in its colours."""
        self._strips.clear()
        self._ground = None
        self.repaint()
        self.refresh()

    def notify_style_update(self) -> None:
        """Another theme, focus or class: forget styles."""
        super().notify_style_update()
        self._strips.clear()
        self._ground = None

    def render_line(self, y: int) -> Strip:
        """The strip of one line, from the cache when its row did not change."""
        palette = self.host.palette
        if palette is not self._palette:  # the theme changed, maybe while this was out of sight
            self._palette, self._ground = palette, None
            self._strips.clear()
        strip = self._strips.get(y)
        if strip is None:
            if not self._rows and all(self.size):  # a first frame comes before it is resized
                self._first = self.size
                self._rows = self._drawn(*self.size)
            row = self._rows[y] if y < len(self._rows) else []
            if self._ground is None:  # dear: found once a style
                self._ground = self.rich_style, self.background_colors[1]
            base, background = self._ground
            style = palette.style
            segments = [Segment(text, style(role, base, background)) for text, role in row if text]
            strip = Strip(segments).adjust_cell_length(self.size.width, base).apply_style(base)
            self._strips[y] = strip
        return strip


def whole_words(row: Row, width: int) -> Row:
    """A row without what does not fit, whole words only: a figure that is cut says another one.

    What is longer than any figure, as a path, is cut where it must be.
    """
    if row_length(row) <= width:
        return row
    out: Row = []
    room = width
    for text, role in row:
        size = cell_len(text)
        if size > room:
            kept = set_cell_size(text, room)
            if not text[len(kept.rstrip()) :].startswith(" "):
                begun = kept.rfind(" ") + 1
                kept = kept[:begun] if len(kept) - begun < LONG_WORD else f"{kept[:-1]}…"
            if kept or not out:
                out.append((kept or set_cell_size(text, room), role))
            break
        out.append((text, role))
        room -= size
    return out


def cut_words(text: str, width: int, ellipsis: str) -> str:
    """The text if it fits, else as many whole words as do and an ellipsis.

    A lone or long name is cut where it must be, a number never.
    """
    if cell_len(text) <= width:
        return text
    kept = set_cell_size(text, max(0, width - cell_len(ellipsis))).rstrip()
    if not text[len(kept) :].startswith(" "):
        begun = kept.rfind(" ") + 1
        word = text[begun:].partition(" ")[0]
        if len(word) < LONG_WORD and (begun or word[:1].isdigit()):
            kept = kept[:begun]
    return kept.rstrip(" ·|,:;") + ellipsis if width > 0 else ""


def changed_span(old: Row, new: Row, width: int) -> tuple[int, int]:
    """First and one past the last column that differ, for rows padded with blanks to width.

    The span may be wider than need be: where runs are cut at other places, or a differing run
    holds characters that are not one column wide.
    """
    before, after = row_length(old), row_length(new)
    start = min(_common(old, new, 1), width - 1)
    end = max(before, after) if before != after else before - _common(old, new, -1)
    return start, min(width, max(end, start + 1))


def _common(one: Row, other: Row, way: Literal[1, -1]) -> int:
    """Columns that two rows have in common at their beginning (way 1) or end (way -1)."""
    columns = 0
    for (text, role), (with_text, with_role) in zip(one[::way], other[::way], strict=False):
        if role != with_role:
            break
        if text != with_text:
            if _narrow(text) and _narrow(with_text):
                pairs = zip(text[::way], with_text[::way], strict=False)
                shorter = min(len(text), len(with_text))
                columns += next((n for n, (a, b) in enumerate(pairs) if a != b), shorter)
            break
        columns += cell_len(text)
    return columns


def _narrow(text: str) -> bool:
    """Whether every character is one column wide."""
    return text.isascii() or cell_len(text) == len(text)


def row_length(row: Row) -> int:
    """Columns that a row takes."""
    return sum(cell_len(text) for text, _ in row)


def heading(
    look: Look,
    width: int,
    title: str,
    note: str = "",
    right: Row | None = None,
    *,
    focused: bool = False,
) -> Row:
    """A section's first line: title, a muted note, a quiet rule, and something at the right.

    focused: the section has the keys, and nothing else in it shows that.
    """
    row: Row = [(look.text(title), "title+cursor" if focused else "title")]
    if note:
        row.append((look.text(f" {note}"), "muted"))
    tail = [(look.text(text), role) for text, role in right or []]
    room = width - row_length(row) - row_length(tail) - (2 if tail else 1)
    while room < 1 and note:  # the note's last words go first
        note = note[: max(note.rfind(", "), note.rfind(" · "), note.rfind(" | "), 0)]
        row[1:] = [(look.text(f" {note}"), "muted")] if note else []
        room = width - row_length(row) - row_length(tail) - (2 if tail else 1)
    if room < 1:
        return row
    row += [(" ", ""), (look.rule * room, "rule")]
    return [*row, (" ", ""), *tail] if tail else row
