"""A labelled line of text in a form."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Label


class FormInput(Input):
    """An input that moves through the form with the arrow keys and leaves it with escape."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "leave(-1)", "Up", show=False, id="field.up", tooltip="line above"),
        Binding("down", "leave(1)", "Down", show=False, id="field.down", tooltip="line below"),
        Binding("escape", "blur", "Leave field", id="field.leave",
                tooltip="leave the field, so that letters are keys again"),
    ]  # fmt: skip

    DEFAULT_CSS = """
    FormInput { width: 1fr; max-width: 30; margin-right: 2; background: $panel; }
    FormInput:focus { background: $cursor; }
    FormInput.-invalid { color: $text-error; background: $error 25%; }
    """

    def action_leave(self, by: int) -> None:
        """Go to the line above or below."""
        if by < 0:
            self.screen.focus_previous()
        else:
            self.screen.focus_next()

    def action_blur(self) -> None:
        """Leave the field, or the dialog that it stands in."""
        from llmprof.tui.kit.dialog import Dialog  # not needed for the first frame

        if isinstance(self.screen, Dialog):
            self.screen.action_cancel()
        else:
            self.screen.set_focus(None)


def form_input(value: str, hint: str, *, id: str) -> FormInput:
    """An input of one line that is as quiet as the text around it."""
    field = FormInput(
        value, placeholder=hint, compact=True, max_length=40, select_on_focus=False, id=id,
        classes="-valid -textual-compact",  # which it gets anyway, each with its styles anew
    )  # fmt: skip
    field.cursor_blink = False
    return field


class Field(Horizontal):
    """A label and an input in one line."""

    DEFAULT_CSS = """
    Field {
        height: 1;
        width: 1fr;
        &> Label { color: $foreground 68%; }
    }
    """

    def __init__(
        self, label: str, value: str, hint: str, *, id: str, label_width: int = 12
    ) -> None:
        super().__init__()
        self._label, self._label_width = label, label_width
        self.input = form_input(value, hint, id=id)

    def compose(self) -> ComposeResult:
        """Label, input."""
        label = Label(self._label, markup=False)
        label.styles.width = self._label_width
        yield label
        yield self.input
