"""The set-up pane: what to run, checked while it is filled in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, VerticalScroll
from textual.message import Message
from textual.widgets import Input

from llmprof.core.spec import ATTENTIONS, MODES, OPTIMIZERS, PRECISIONS, ModelShape, SpecError
from llmprof.tui.chart.plot import Row
from llmprof.tui.choices import (
    NUMBERS,
    Checked,
    Choices,
    check,
    choose_experiment,
    command_line,
    experiments,
)
from llmprof.tui.forecast import (
    DEFAULT_CARD,
    CardChoice,
    Forecast,
    card_names,
    every_model,
    named_card,
)
from llmprof.tui.format import count
from llmprof.tui.widgets.canvas import Canvas, heading
from llmprof.tui.widgets.chips import Chips
from llmprof.tui.widgets.field import Field, FormInput
from llmprof.tui.widgets.fits import ROLES, WORDS, FitsBar
from llmprof.tui.widgets.picker import Picker
from llmprof.tui.widgets.ticks import Option, Ticks

_CHIPS = (
    ("modes", "Mode", MODES),
    ("precisions", "Precision", PRECISIONS),
    ("attentions", "Attention", ATTENTIONS),
    ("optimizers", "Optimizer", OPTIMIZERS),
)
SLICE_S = 0.03  # of forecasting before the screen has its turn
_HINTS = {"context": "128,256", "batch": "4", "warmup": "5", "steps": "10"}


THIS = "this card"
ASSUMED = f"no card, as {DEFAULT_CARD}"


class Title(Canvas):
    """A section's heading."""

    DEFAULT_CSS = """
    Title { height: 1; }
    """

    def __init__(self, text: str, note: str = "", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text, self._note = text, note

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """The heading."""
        return [heading(self.look, width, self._text, self._note)]


class Equivalent(Canvas):
    """The command that does the same, or what is wrong with the form."""

    DEFAULT_CSS = """
    Equivalent { height: auto; min-height: 3; }
    """

    def __init__(self) -> None:
        super().__init__(id="equivalent")
        self.checked = Checked(None, 0, {})

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """Heading and command."""
        return max(3, 1 + len(self._wrapped(max(10, width))))

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Command and number of cases, or the error."""
        look, checked = self.look, self.checked
        copy: Row = [("c", "key"), (" copy", "muted")]
        if checked.experiment is None:
            return [
                heading(look, width, "Command", right=copy), [(look.text(checked.message), "bad")]
            ]  # fmt: skip
        noun = "case" if checked.cases == 1 else "cases"
        runs: Row = [("r", "key"), (f" runs {checked.cases} {noun}  ", "muted")]
        return [
            heading(look, width, "Command", right=[*runs, *copy]),
            *([(line, "text")] for line in self._wrapped(width)),
        ]

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
        line = command_line(self.checked.experiment, smoke=self.checked.smoke)
        head, *options = line.split(" --")
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
        &> #forecast { height: auto; layout: vertical; }
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
        self._known = experiments()
        self._here: CardChoice | None = None
        self._prediction: Forecast | None = None

    @property
    def checked(self) -> Checked:
        """The form, checked."""
        return check(self.choices, self.models)

    def compose(self) -> ComposeResult:
        """The form from top to bottom."""
        yield self._experiment_picker()
        yield Title("Models", "space ticks, a ticks all", id="models-title")
        yield Ticks([_option(m) for m in self.models.values()], self.choices.models, id="models")
        for name, label, options in _CHIPS:
            yield Chips(label, options, getattr(self.choices, name), id=name)
        for pair in (NUMBERS[:2], NUMBERS[2:]):
            with Horizontal(classes="pair"):
                for name, label, _, _ in pair:
                    yield Field(label, getattr(self.choices, name), _HINTS[name], id=name)
        with Container(id="forecast"):
            yield self._card_picker()
            yield FitsBar()
        yield Equivalent()

    def on_mount(self) -> None:
        """Say what the form means."""
        self._say(self.checked)

    def show_card(self, card: CardChoice | None) -> None:
        """Take the card that is there, None where there is none or it is not known yet."""
        if card != self._here:
            self._here = card
            self._say(self.checked)

    def on_picker_changed(self, message: Picker.Changed) -> None:
        """Another experiment fills in the form; another card, another forecast."""
        message.stop()
        picker = message.picker
        if picker.id == "pick-card":
            at_home = picker.chosen == picker.options[0]
            self._change(card="" if at_home else picker.chosen)
        elif picker.chosen != self.choices.experiment:
            filled = choose_experiment(self.choices, picker.chosen, self.models)
            self._put(filled)
        else:
            self._change(smoke=picker.on)

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

    def _experiment_picker(self) -> Picker:
        picker = Picker("Experiment", list(self._known), self.choices.experiment,
                        id="pick-experiment", switch="smoke")  # fmt: skip
        picker.on = self.choices.smoke
        return picker

    def _card_picker(self) -> Picker:
        try:
            names = card_names()
        except SpecError:
            names = ()
        return Picker("Memory", (ASSUMED, *names), self.choices.card or ASSUMED, id="pick-card")

    def _put(self, choices: Choices) -> None:
        """Show other choices all over the form."""
        self.choices = choices
        self.query_one(Ticks).put(choices.models)
        for chips in self.query(Chips):
            chips.put(getattr(choices, str(chips.id)))
        for field in self.query(FormInput):
            field.value = getattr(choices, str(field.id))
        self._changed()

    def _say(self, checked: Checked) -> None:
        """Command, note of the experiment, forecast."""
        self.query_one(Equivalent).show(checked)
        picker = self.query_one("#pick-experiment", Picker)
        title, small = self._known.get(self.choices.experiment, ("", False))
        picker.can_switch, picker.on, picker.note = small, self.choices.smoke, title
        picker.repaint()
        self._forecast(checked)

    def _forecast(self, checked: Checked) -> None:
        """Predict what the cases need, a slice at once, so that no key waits for it."""
        card = named_card(self.choices.card) or self._here or named_card(DEFAULT_CARD)
        picker = self.query_one("#pick-card", Picker)
        picker.rename_first(THIS if self._here is not None else ASSUMED)
        picker.note = card.name if card is not None and card.here else ""
        picker.repaint()
        if card is None or checked.experiment is None:
            self._prediction = None
            self.query_one(FitsBar).show(None)
            self.query_one(Ticks).mark({})
            return
        ticked = checked.experiment.cases()
        others = () if checked.smoke else every_model(checked.experiment, self.models)
        self._prediction = Forecast(card, ticked, others)
        self._go_on(self._prediction)

    def _go_on(self, forecast: Forecast) -> None:
        if forecast is not self._prediction:
            return  # the form says something else by now
        if not forecast.work(SLICE_S):
            self.set_timer(SLICE_S, partial(self._go_on, forecast))
        self.query_one(FitsBar).show(forecast, "the closed form knows whole models only")
        self.query_one(Ticks).mark(
            {name: (WORDS[said], ROLES[said]) for name, said in forecast.by_model.items()}
        )

    def _change(self, **changes: object) -> None:
        choices = msgspec.structs.replace(self.choices, **changes)
        if choices == self.choices:
            return
        self.choices = choices
        self._changed()

    def _changed(self) -> None:
        checked = self.checked
        for field in self.query(FormInput):
            field.set_class(field.id in checked.errors, "-invalid")
        self._say(checked)
        self.post_message(self.Changed(self.choices, checked))


def _option(model: ModelShape) -> Option:
    note = f"{count(model.parameters):>6} · {model.num_layers:>2} layers · d {model.d_model}"
    edition = f" ({model.edition})" if "xl" in model.name and model.edition else ""
    return Option(model.name, note + edition)
