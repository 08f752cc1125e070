"""Asks for a run's name."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Static

from llmprof.tui.kit.dialog import Dialog


class NameDialog(Dialog[str]):
    """Returns the name typed, "" to take it away, None when nothing shall change."""

    def __init__(self, run_id: str, label: str) -> None:
        super().__init__()
        self._run_id, self._label = run_id, label

    def compose(self) -> ComposeResult:
        """Title, input."""
        with Vertical(classes="box"):
            yield Static(f"Name of {self._run_id}", markup=False, classes="dialog-title")
            field = Input(self._label, placeholder="a name, or empty for none", compact=True,
                          max_length=200, select_on_focus=False, id="name")  # fmt: skip
            field.cursor_blink = False
            yield field
            yield Static("enter keeps it, esc cancels", markup=False, classes="dialog-note")

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one(Input).focus()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Take the name."""
        message.stop()
        self.dismiss(message.value)
