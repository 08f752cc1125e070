"""The form's numbers: context, batch, checkpoint, micro-batches, warm-up, steps."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Grid
from textual.widgets import Label

from llmprof.tui.kit.field import FormInput, form_input
from llmprof.tui.session.choices import NUMBER_FIELDS, Choices

_HINTS = {
    "context": "128,256",
    "batch": "4",
    "checkpoint": "none,1,all",
    "accumulate": "1",
    "warmup": "5",
    "steps": "10",
}


class Numbers(Grid):
    """A label and an input for each number, three pairs a line."""

    DEFAULT_CSS = """
    Numbers {
        height: 2;
        grid-size: 6 2;
        grid-columns: 12 1fr;
        & > Label { color: $foreground 58%; }
        &.-idle FormInput { color: $foreground 40%; }
    }
    """

    def __init__(self, choices: Choices) -> None:
        super().__init__(id="numbers")
        self._choices = choices

    def compose(self) -> ComposeResult:
        """The inputs, filled in; each has the name of its choice as id."""
        for name, label, _, _ in NUMBER_FIELDS:
            yield Label(label, markup=False)
            yield form_input(getattr(self._choices, name), _HINTS[name], id=name)

    def put(self, choices: Choices) -> None:
        """Show other numbers."""
        for field in self.query(FormInput):
            field.value = getattr(choices, str(field.id))

    def mark(self, errors: dict[str, str]) -> None:
        """Show which of them cannot be."""
        for field in self.query(FormInput):
            field.set_class(field.id in errors, "-invalid")
