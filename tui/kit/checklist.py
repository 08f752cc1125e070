"""A list of options to tick, several at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, row_length
from llmprof.tui.kit.table_cells import fit
from llmprof.tui.kit.words import told_apart


class ChecklistOption(msgspec.Struct, frozen=True):
    """A value and what is said about it."""

    value: str
    note: str = ""


ChecklistMarks = dict[str, tuple[str, str]]  # by value: a word and a role


class Checklist(Canvas, can_focus=True):
    """Options one a line; moving past an end leaves the list, as if it were part of the form."""

    DEFAULT_CSS = """
    Checklist { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="ticks.up", tooltip="previous option"),
        Binding("down,j", "move(1)", "Down", show=False, id="ticks.down", tooltip="next option"),
        Binding("space,enter", "tick", "Tick", id="ticks.toggle",
                tooltip="tick or untick the option under the cursor"),
        Binding("a", "all", "All", show=False, id="ticks.all",
                tooltip="tick all options, or only the one under the cursor"),
    ]  # fmt: skip

    class Changed(Message):
        """Other options are ticked."""

        def __init__(self, checklist: Checklist) -> None:
            super().__init__()
            self.checklist = checklist

        @property
        def control(self) -> Checklist:
            """The list."""
            return self.checklist

    def __init__(
        self, options: Sequence[ChecklistOption], chosen: Sequence[str], *, id: str
    ) -> None:
        super().__init__(id=id)
        self.options = tuple(options)
        self.chosen = tuple(o.value for o in options if o.value in chosen)
        self.marks: ChecklistMarks = {}
        self.idle = False  # whether something else than what is ticked is meant
        self._at = next((n for n, o in enumerate(options) if o.value in chosen), 0)

    def get_content_height(self, *_: object) -> int:
        """One line an option."""
        return len(self.options)

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Mark, name, note; the cursor only while focused."""
        look = self.look
        names = [look.text(option.value) for option in self.options]
        name_width = min(max(map(cell_len, names)), width // 2)
        apart = told_apart(names, name_width, look.ellipsis)
        rows: list[Row] = []
        for at, (option, full) in enumerate(zip(self.options, names, strict=True)):
            here = self.has_focus and at == self._at
            ticked = option.value in self.chosen
            back = "+cursor" if here else ""
            mark = f"{look.cursor if here else ' '} {look.on if ticked else look.off} "
            sign, name, note = self._roles(ticked)
            text, role = self.marks.get(option.value, ("", "muted"))
            said = option.note  # makes room for the mark, part by part
            while said and len(mark) + name_width + len(said) + len(text) + 4 > width:
                said = said.rpartition(" (" if said.endswith(")") else " · ")[0]
            row: Row = [
                (mark, f"{sign}{back}"),
                (fit(apart.get(full, full), name_width, "left", look.ellipsis), f"{name}{back}"),
                (f"  {look.text(said)}", f"{note}{back}"),
            ]
            rest = " " * max(0, width - row_length(row) - len(text) - 1)
            rows.append([*row, (rest, back.lstrip("+")), (f"{text} ", f"{role}{back}")])
        return rows

    def _roles(self, ticked: bool) -> tuple[str, str, str]:
        """Roles of sign, name and note."""
        if self.idle:
            return "axis", "axis", "axis"
        return ("accent", "title", "muted") if ticked else ("axis", "text", "muted")

    def set_idle(self, idle: bool) -> None:
        """Be pale while something else than what is ticked is meant."""
        if idle is not self.idle:
            self.idle = idle
            self.repaint()

    def mark(self, marks: ChecklistMarks) -> None:
        """Say something about options at the right end of their lines."""
        if marks != self.marks:
            self.marks = marks
            self.repaint()

    def put(self, chosen: Sequence[str]) -> None:
        """Show other ticks without telling anybody."""
        self.chosen = tuple(o.value for o in self.options if o.value in chosen)
        self.repaint()

    def choose(self, chosen: Sequence[str]) -> None:
        """Tick exactly these."""
        ticked = tuple(o.value for o in self.options if o.value in chosen)
        if ticked != self.chosen:
            self.chosen = ticked
            self.repaint()
            self.post_message(self.Changed(self))

    def action_move(self, by: int) -> None:
        """Move the cursor, or the focus beyond the ends."""
        if 0 <= self._at + by < len(self.options):
            self._at += by
            self.repaint()
        elif by < 0:
            self.screen.focus_previous()
        else:
            self.screen.focus_next()

    def action_tick(self) -> None:
        """Tick or untick the option under the cursor."""
        value = self.options[self._at].value
        kept = [v for v in self.chosen if v != value]
        self.choose(kept if value in self.chosen else [*kept, value])

    def action_all(self) -> None:
        """Tick all, or only the one under the cursor when all are."""
        every = [option.value for option in self.options]
        self.choose([self.options[self._at].value] if len(self.chosen) == len(every) else every)

    def on_click(self, event: events.Click) -> None:
        """Tick what was clicked."""
        if 0 <= event.y < len(self.options):
            self._at = event.y
            self.action_tick()
            self.repaint()
