"""The set-up pane: what to run, checked while it is filled in."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.widgets import Input

from llmprof.core.spec import ATTENTIONS, MODES, OPTIMIZERS, PRECISIONS, ModelShape
from llmprof.tui.chart.plot import Row
from llmprof.tui.choices import NUMBERS, Checked, Choices, check, command_line
from llmprof.tui.format import count
from llmprof.tui.widgets.canvas import Canvas, heading
from llmprof.tui.widgets.chips import Chips
from llmprof.tui.widgets.field import Field, FormInput
from llmprof.tui.widgets.ticks import Option, Ticks

_CHIPS = (
    ("modes", "Mode", MODES),
    ("precisions", "Precision", PRECISIONS),
    ("attentions", "Attention", ATTENTIONS),
    ("optimizers", "Optimizer", OPTIMIZERS),
)
_HINTS = {"context": "128,256", "batch": "4", "warmup": "5", "steps": "10"}


class Title(Canvas):
    """A section's heading."""

    DEFAULT_CSS = """
    Title { height: 1; }
    """

    def __init__(self, text: str, note: str = "") -> None:
        super().__init__()
        self._text, self._note = text, note

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """The heading."""
        return [heading(self.look, width, self._text, self._note)]


class Equivalent(Canvas):
    """The command that does the same, or what is wrong with the form."""

    DEFAULT_CSS = """
    Equivalent { height: auto; min-height: 4; }
    """

    def __init__(self) -> None:
        super().__init__(id="equivalent")
        self.checked = Checked(None, 0, {})

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """Heading, command, one line for what comes next."""
        return max(4, 2 + len(self._wrapped(max(10, width))))

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Command and number of cases, or the error."""
        look, checked = self.look, self.checked
        copy: Row = [("c", "key"), (" copy", "muted")]
        rows: list[Row] = [heading(look, width, "Command", right=copy)]
        if checked.experiment is None:
            return [*rows, [(look.text(checked.message), "bad")]]
        rows += [[(line, "text")] for line in self._wrapped(width)]
        noun = "case" if checked.cases == 1 else "cases"
        rows.append(
            [("r", "key"), (f" runs {checked.cases} {noun}, each in a fresh process", "muted")]
        )
        return rows

    def show(self, checked: Checked) -> None:
        """Take a checked form."""
        lines = len(self._wrapped(max(10, self.size.width)))
        self.checked = checked
        if len(self._wrapped(max(10, self.size.width))) != lines:
            self.refresh(layout=True)
        self.repaint()

    def _wrapped(self, width: int) -> list[str]:
        if self.checked.experiment is None:
            return [""]
        lines = [""]
        head, *options = command_line(self.checked.experiment).split(" --")
        for word in (head, *(f"--{option}" for option in options)):
            if lines[-1] and len(lines[-1]) + len(word) + 3 > width:
                lines[-1] += " \\"
                lines.append("  " + word)
            else:
                lines[-1] = f"{lines[-1]} {word}".lstrip() if len(lines) == 1 else (
                    f"{lines[-1]} {word}")  # fmt: skip
        return lines


class SetupPane(VerticalScroll, can_focus=False):
    """Models to tick, choices, numbers, and the equivalent command."""

    DEFAULT_CSS = """
    SetupPane {
        scrollbar-size-vertical: 1;
        &> .pair { height: 1; }
    }
    """

    class Changed(Message):
        """The form says something else now."""

        def __init__(self, choices: Choices, checked: Checked) -> None:
            super().__init__()
            self.choices = choices
            self.checked = checked

    def __init__(self, models: dict[str, ModelShape], choices: Choices) -> None:
        super().__init__(id="setup")
        self.models = models
        self.choices = choices

    @property
    def checked(self) -> Checked:
        """The form, checked."""
        return check(self.choices, self.models)

    def compose(self) -> ComposeResult:
        """The form from top to bottom."""
        yield Title("Models", "space ticks, a ticks all")
        yield Ticks([_option(m) for m in self.models.values()], self.choices.models, id="models")
        yield Title("Measure", "space adds, enter chooses one")
        for name, label, options in _CHIPS:
            yield Chips(label, options, getattr(self.choices, name), id=name)
        for pair in (NUMBERS[:2], NUMBERS[2:]):
            with Horizontal(classes="pair"):
                for name, label, _, _ in pair:
                    yield Field(label, getattr(self.choices, name), _HINTS[name], id=name)
        yield Equivalent()

    def on_mount(self) -> None:
        """Say what the form means."""
        self.query_one(Equivalent).show(self.checked)

    def on_ticks_changed(self, message: Ticks.Changed) -> None:
        """Other models."""
        message.stop()
        self._change(models=message.ticks.chosen)

    def on_chips_changed(self, message: Chips.Changed) -> None:
        """Other modes, precisions, ..."""
        message.stop()
        self._change(**{str(message.chips.id): message.chips.chosen})

    def on_input_changed(self, message: Input.Changed) -> None:
        """Other numbers."""
        message.stop()
        self._change(**{str(message.input.id): message.value})

    def on_input_submitted(self, message: Input.Submitted) -> None:
        """Enter goes to the next line."""
        message.stop()
        self.screen.focus_next()

    def focus_first(self) -> None:
        """Put the cursor on the models."""
        self.query_one(Ticks).focus()

    def _change(self, **changes: object) -> None:
        choices = msgspec.structs.replace(self.choices, **changes)
        if choices == self.choices:
            return
        self.choices = choices
        checked = self.checked
        for field in self.query(FormInput):
            field.set_class(field.id in checked.errors, "-invalid")
        self.query_one(Equivalent).show(checked)
        self.post_message(self.Changed(self.choices, checked))


def _option(model: ModelShape) -> Option:
    note = f"{count(model.parameters):>6} · {model.num_layers:>2} layers · d {model.d_model}"
    edition = f" ({model.edition})" if "xl" in model.name and model.edition else ""
    return Option(model.name, note + edition)
