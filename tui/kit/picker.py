"""One line with one of many options, and a switch beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, cut_words, row_length
from llmprof.tui.kit.chips import LABEL_WIDTH
from llmprof.tui.kit.table_cells import fit


class Picker(Canvas, can_focus=True):
    """Left and right pick another option, space turns the switch if there is one."""

    DEFAULT_CSS = """
    Picker { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "pick(-1)", "Before", show=False, id="picker.before",
                tooltip="the option before"),
        Binding("right,l", "pick(1)", "Next", key_display="←→", id="picker.next",
                tooltip="the next option"),
        Binding("up,k", "leave(-1)", "Up", show=False, id="picker.up", tooltip="line above"),
        Binding("down,j", "leave(1)", "Down", show=False, id="picker.down", tooltip="line below"),
        Binding("space", "switch", "Switch", id="picker.switch", tooltip="turn the switch"),
    ]  # fmt: skip

    class Changed(Message):
        """Another option, or the switch was turned."""

        def __init__(self, picker: Picker) -> None:
            super().__init__()
            self.picker = picker

    def __init__(
        self, label: str, options: Sequence[str], chosen: str, *, id: str, switch: str = ""
    ) -> None:
        super().__init__(id=id)
        self.label = label
        self.options = tuple(options)
        self.chosen = chosen if chosen in options else self.options[0]
        self.switch = switch
        self.on = False
        self.can_switch = True
        self.note = ""
        self._places: list[tuple[int, int, int]] = []

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Label, arrows around the option, the switch, a note where there is room."""
        look, back = self.look, "+cursor" if self.has_focus else ""
        self._places = []
        row: Row = [(self.label.ljust(LABEL_WIDTH), "muted")]
        self._part(row, ("< " if look.ascii else "◂ "), f"axis{back}", -1)
        row.append((self.chosen, f"chip{back}"))
        self._part(row, (" >" if look.ascii else " ▸"), f"axis{back}", 1)
        if self.switch and self.can_switch:
            row.append(("  ", ""))
            mark = look.on if self.on else look.off
            self._part(row, f"{mark} {self.switch}", "chip" if self.on else "muted", 0)
        room = width - row_length(row) - 2
        if height > 1 and len(self.note) > room:  # it has a line of its own
            text = fit(self.note, width - LABEL_WIDTH, "left", look.ellipsis)
            return [row, [(" " * LABEL_WIDTH, ""), (look.text(text), "muted")]]
        if self.note and room >= 12:
            text = self.note
            text = cut_words(text, room, look.ellipsis)
            row += [("  ", ""), (look.text(text), "muted")]
        return [row]

    def put(self, chosen: str) -> None:
        """Show an option without telling anybody."""
        if chosen in self.options:
            self.chosen = chosen
            self.repaint()

    def offer(self, options: Sequence[str], chosen: str) -> None:
        """Take other options; the first one is shown when the chosen one is not among them."""
        self.options = tuple(options)
        self.chosen = chosen if chosen in options else self.options[0]
        self.repaint()

    def rename_first(self, name: str) -> None:
        """Call the first option otherwise."""
        if self.chosen == self.options[0]:
            self.chosen = name
        self.options = (name, *self.options[1:])

    def action_pick(self, by: int) -> None:
        """Pick another option."""
        at = (self.options.index(self.chosen) + by) % len(self.options)
        self.chosen = self.options[at]
        self.repaint()
        self.post_message(self.Changed(self))

    def action_switch(self) -> None:
        """Turn the switch."""
        if self.switch and self.can_switch:
            self.on = not self.on
            self.repaint()
            self.post_message(self.Changed(self))

    def action_leave(self, by: int) -> None:
        """Go to the line above or below."""
        if by < 0:
            self.screen.focus_previous()
        else:
            self.screen.focus_next()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The switch is offered where there is one."""
        return bool(self.switch and self.can_switch) if action == "switch" else True

    def on_click(self, event: events.Click) -> None:
        """An arrow picks, the switch turns."""
        for start, end, by in self._places:
            if start <= event.x < end:
                if by:
                    self.action_pick(by)
                else:
                    self.action_switch()

    def _part(self, row: Row, text: str, role: str, by: int) -> None:
        start = row_length(row)
        row.append((text, role))
        self._places.append((start, row_length(row), by))
