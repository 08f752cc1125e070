"""A question with a few answers, each with a key of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas
from llmprof.tui.kit.dialog import Dialog


@dataclass(frozen=True)
class Answer:
    """What it returns, its key, its text."""

    value: str
    key: str
    label: str
    role: str = "text"


class Answers(Canvas, can_focus=True):
    """The answers, one a line, with a cursor."""

    DEFAULT_CSS = """
    Answers { height: auto; }
    """

    def __init__(self, choices: Sequence[Answer], at: int) -> None:
        super().__init__(id="answers")
        self.choices = choices
        self.at = at

    def get_content_height(self, *_: object) -> int:
        """One line an answer."""
        return len(self.choices)

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Cursor, key, text."""
        rows: list[Row] = []
        for at, choice in enumerate(self.choices):
            back = "+cursor" if at == self.at else ""
            key = "esc" if choice.key == "escape" else choice.key
            text = f"{self.look.text(choice.label)}"
            rows.append(
                [
                    (f"{self.look.cursor if back else ' '} ", f"accent{back}"),
                    (f"{key:<5}", f"key{back}"),
                    (text.ljust(max(0, width - 7)), f"{choice.role}{back}"),
                ]
            )
        return rows


class AskDialog(Dialog[str]):
    """Returns the value of the answer, None for escape unless an answer has that key."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k,shift+tab", "move(-1)", "Up", show=False, id="ask.up",
                tooltip="answer above"),
        Binding("down,j,tab", "move(1)", "Down", show=False, id="ask.down",
                tooltip="answer below"),
        Binding("enter", "take", "Take", key_display="enter", id="ask.take",
                tooltip="take the answer under the cursor"),
    ]  # fmt: skip

    def __init__(self, title: str, text: str, choices: Sequence[Answer], at: int = 0) -> None:
        super().__init__()
        self._title, self._text = title, text
        self.answers = Answers(choices, at)

    def compose(self) -> ComposeResult:
        """Title, text, answers."""
        look = self.host.look
        with Vertical(classes="box"):
            yield Static(look.text(self._title), markup=False, classes="dialog-title")
            yield Static(look.text(self._text), markup=False, classes="dialog-text")
            yield self.answers

    def on_mount(self) -> None:
        """The answers have the keys."""
        self.answers.focus()

    def on_key(self, event: events.Key) -> None:
        """An answer's own key takes it."""
        for choice in self.answers.choices:
            if event.key == choice.key:
                event.stop()
                event.prevent_default()
                self.dismiss(choice.value)
                return

    def on_click(self, event: events.Click) -> None:
        """A click on an answer takes it; one outside the box decides nothing."""
        if event.widget is self.answers and 0 <= event.y < len(self.answers.choices):
            self.dismiss(self.answers.choices[event.y].value)
        elif event.widget is self:
            self.action_cancel()

    def action_move(self, by: int) -> None:
        """Another answer."""
        self.answers.at = (self.answers.at + by) % len(self.answers.choices)
        self.answers.repaint()

    def action_take(self) -> None:
        """The answer under the cursor."""
        self.dismiss(self.answers.choices[self.answers.at].value)
