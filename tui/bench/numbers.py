"""The form's numbers: of every axis that has no names, and how many steps are measured."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Grid
from textual.widgets import Label

from llmprof.tui.kit.chips import LABEL_WIDTH
from llmprof.tui.kit.field import FormInput, form_input
from llmprof.tui.session.choices import NUMBER_FIELDS, Choices

NUMBER_LABELS = max(LABEL_WIDTH, *(len(field.label) + 1 for field in NUMBER_FIELDS))
_LINES = -(-len(NUMBER_FIELDS) // 2)  # of two numbers each


class Numbers(Grid):
    """A label and an input for each number, two pairs a line."""

    DEFAULT_CSS = f"""
    Numbers {{
        height: {_LINES};
        grid-size: 4 {_LINES};
        grid-columns: {NUMBER_LABELS} 1fr;
        & > Label {{ color: $foreground 68%; }}
        &.-idle FormInput {{ color: $foreground 40%; }}
    }}
    """

    def __init__(self, choices: Choices) -> None:
        super().__init__(id="numbers")
        self._choices = choices

    def compose(self) -> ComposeResult:
        """The inputs, filled in; each has the name of its choice as id."""
        for field in NUMBER_FIELDS:
            yield Label(field.label, markup=False)
            hint = "128,256" if field.many else "10"
            hint = ",".join(field.words) or hint
            yield form_input(getattr(self._choices, field.name), hint, id=field.name)

    def put(self, choices: Choices) -> None:
        """Show other numbers."""
        for field in self.query(FormInput):
            field.value = getattr(choices, str(field.id))

    def mark(self, errors: dict[str, str]) -> None:
        """Show which of them cannot be."""
        for field in self.query(FormInput):
            field.set_class(field.id in errors, "-invalid")
