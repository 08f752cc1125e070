"""A line of options side by side, one or several chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas

LABEL_WIDTH = 12


class Chips(Canvas, can_focus=True):
    """Options in one line: left and right move, space chooses, and at least one stays chosen."""

    DEFAULT_CSS = """
    Chips { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "move(-1)", "Left", show=False, id="chips.left",
                tooltip="option to the left"),
        Binding("right,l", "move(1)", "Right", show=False, id="chips.right",
                tooltip="option to the right"),
        Binding("up,k", "leave(-1)", "Up", show=False, id="chips.up", tooltip="line above"),
        Binding("down,j", "leave(1)", "Down", show=False, id="chips.down", tooltip="line below"),
        Binding("space", "add", "Add", id="chips.toggle",
                tooltip="choose or drop the option under the cursor, beside the others"),
        Binding("enter", "only", "Only this", key_display="enter", id="chips.only",
                tooltip="choose the option under the cursor and no other"),
    ]  # fmt: skip

    class Changed(Message):
        """Other options are chosen."""

        def __init__(self, chips: Chips) -> None:
            super().__init__()
            self.chips = chips

        @property
        def control(self) -> Chips:
            """The line."""
            return self.chips

    def __init__(
        self,
        label: str,
        options: Sequence[str],
        chosen: Sequence[str],
        *,
        id: str,
        names: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(id=id)
        self.label = label
        self.options = tuple(options)
        self.names = {option: (names or {}).get(option, option) for option in options}
        self.chosen = tuple(o for o in options if o in chosen)
        self.idle = False  # whether something else than what is chosen is meant
        self._at = next((n for n, o in enumerate(options) if o in chosen), 0)
        self._places: list[tuple[int, int, int, int]] = []

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """As many lines as the options need."""
        return 1 + self._place(width)[-1][0]

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Label, then the options, wrapped to the width."""
        look = self.look
        self._places = self._place(width)
        lines: dict[int, Row] = {}
        left_out = len(self._places) < len(self.options)
        for y, _, _, at in self._places:
            row = lines.setdefault(y, [(self.label.ljust(LABEL_WIDTH) if not y
                                        else " " * LABEL_WIDTH, "muted")])  # fmt: skip
            here = self.has_focus and at == self._at
            chosen = self.options[at] in self.chosen
            role = "axis" if self.idle else "chip" if chosen else "muted"
            role += "+cursor" if here else ""
            row += [
                (f"{look.on if chosen else look.off} {self.names[self.options[at]]}", role),
                ("  ", ""),
            ]
        if left_out:
            lines[0][-1:] = [(" ", ""), (look.ellipsis, "muted")]
        return [lines[y] for y in sorted(lines)]

    def watch_has_focus(self, has_focus: bool) -> None:
        """Without the keys one line is enough."""
        super().watch_has_focus(has_focus)
        if len(self._place(self.size.width or 1, whole=True)) != len(self._places) or any(
            y for y, *_ in self._places
        ):
            self.refresh(layout=True)

    def on_resize(self) -> None:
        """Have all lines in sight, now that there are more or less of them."""
        if self.has_focus:
            self.scroll_visible(animate=False)

    def set_idle(self, idle: bool) -> None:
        """Be pale while something else than what is chosen is meant."""
        if idle is not self.idle:
            self.idle = idle
            self.repaint()

    def put(self, chosen: Sequence[str]) -> None:
        """Show other choices without telling anybody."""
        self.chosen = tuple(o for o in self.options if o in chosen)
        self.repaint()

    def choose(self, chosen: Sequence[str]) -> None:
        """Choose exactly these; an empty choice is not taken."""
        ordered = tuple(o for o in self.options if o in chosen)
        if ordered and ordered != self.chosen:
            self.chosen = ordered
            self.post_message(self.Changed(self))
        self.repaint()

    def action_move(self, by: int) -> None:
        """Move the cursor along the line."""
        self._at = min(len(self.options) - 1, max(0, self._at + by))
        self.repaint()

    def action_leave(self, by: int) -> None:
        """Go to the line above or below."""
        if by < 0:
            self.screen.focus_previous()
        else:
            self.screen.focus_next()

    def action_add(self) -> None:
        """Choose or drop the option under the cursor."""
        value = self.options[self._at]
        kept = [v for v in self.chosen if v != value]
        self.choose(kept if value in self.chosen else [*kept, value])

    def action_only(self) -> None:
        """Choose the option under the cursor and no other."""
        self.choose([self.options[self._at]])

    def on_click(self, event: events.Click) -> None:
        """Choose or drop what was clicked."""
        for y, start, end, at in self._places:
            if event.y == y and start <= event.x < end:
                self._at = at
                self.action_add()

    def _place(self, width: int, *, whole: bool = False) -> list[tuple[int, int, int, int]]:
        """Line, first and last column, and position of every option.

        Where one line is too short for all, and the keys are elsewhere, it holds those that are
        chosen and as many others as it has room for.
        """
        every = range(len(self.options))
        if whole or self.has_focus or self._lines(every, width)[-1][0] == 0:
            return self._lines(every, width)
        kept = list(every)
        for at in reversed(every):
            if self.options[at] not in self.chosen:
                kept.remove(at)
                if kept and self._lines(kept, width - 2)[-1][0] == 0:  # a gap, an ellipsis
                    return self._lines(kept, width - 2)
        return self._lines(every, width)

    def _lines(self, kept: Sequence[int], width: int) -> list[tuple[int, int, int, int]]:
        out, x, y = [], LABEL_WIDTH, 0
        for at in kept:
            size = len(self.names[self.options[at]]) + 2
            if x + size > width and x > LABEL_WIDTH:
                x, y = LABEL_WIDTH, y + 1
            out.append((y, x, x + size, at))
            x += size + 2
        return out
