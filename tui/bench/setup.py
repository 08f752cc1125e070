"""The set-up pane: what to run, checked while it is filled in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from llmprof.core.catalog.experiments import is_attention
from llmprof.core.spec.axes import NONE
from llmprof.core.spec.shape import ModelShape
from llmprof.tui.bench.equivalent import Equivalent
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.checklist import Checklist, ChecklistOption
from llmprof.tui.kit.chips import Chips
from llmprof.tui.kit.format import count_text
from llmprof.tui.kit.picker import Picker
from llmprof.tui.session.choices import (
    CHOSEN,
    LONGEST_OWN,
    Checked,
    Choices,
    check_choices,
    choose_experiment,
    experiments,
)

if TYPE_CHECKING:
    from llmprof.core.events import Environment
    from llmprof.tui.bench.forecast_line import ForecastLine
    from llmprof.tui.bench.numbers import Numbers
    from llmprof.tui.kit.field import FormInput

_OF_SMOKE = frozenset({"smoke", "card"})  # what changes while smoke sizes are measured
SPACIOUS = 36  # lines of a window in which all of the form is in sight anyway
OWN_HINT = "mine.py:build"
OWN_SIZES = "its own small sizes"
OF_ATTENTION = "sdpa_backends"  # chips that only say something of one attention alone


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


class SetupPane(Vertical):
    """Models to tick, choices, numbers; below them, always in sight, the equivalent command."""

    DEFAULT_CSS = """
    SetupPane {
        & #form { height: 1fr; scrollbar-size-vertical: 1; }
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
        self.checked = check_choices(choices, models)
        self.ready = False  # whether the upper part of the form is there
        self._wanted = False  # the lower part
        self._numbers: Numbers | None = None
        self._own: FormInput | None = None
        self._line: ForecastLine | None = None
        self._known = experiments()
        self._environment: Environment | None = None
        self._machine: Environment | None = None

    @property
    def whole(self) -> bool:
        """Whether all of the form is there."""
        return self._line is not None

    def compose(self) -> ComposeResult:
        """The form from top to bottom, but for its lower part."""
        with VerticalScroll(id="form", can_focus=False):
            yield self._experiment_picker()
            yield Title("Models", "space ticks, a ticks all", id="models-title")
            yield Checklist(
                [_option(m) for m in self.models.values()], self.choices.models, id="models"
            )
            for axis in CHOSEN:
                chosen = getattr(self.choices, axis.plural)
                yield Chips(axis.label, axis.words, chosen, id=axis.plural, names={NONE: axis.none})
        yield Equivalent(self.checked)

    def on_mount(self) -> None:
        """Take the keys."""
        self.ready = True
        self._say()
        self.focus_first()
        if self._wanted:
            self.call_later(self._mount_rest)

    def compose_rest(self) -> None:
        """Have the lower part too, numbers and forecast; the first frame does without."""
        if self._wanted:
            return
        self._wanted = True
        if self.ready:
            self.call_later(self._mount_rest)

    async def _mount_rest(self) -> None:
        from llmprof.tui.bench.forecast_line import ForecastLine  # not for the first frame
        from llmprof.tui.bench.numbers import NUMBER_LABELS, Numbers
        from llmprof.tui.kit.field import Field

        if not self.is_attached:  # the screen ends
            return
        numbers, line = Numbers(self.choices), ForecastLine(self.models, self.choices.card)
        own = Field("Own model", self.choices.own_models, OWN_HINT, id="own_models",
                    label_width=NUMBER_LABELS)  # fmt: skip
        own.input.max_length = LONGEST_OWN
        await self.query_one("#form").mount(own, numbers)
        if not numbers.is_attached:
            return
        self._own = own.input
        await self.mount(line, after="#form")  # always in sight, as what it judges
        if not line.is_attached:
            return
        self._numbers, self._line = numbers, line
        numbers.put(self.choices)  # the experiment may have been changed meanwhile
        if self._environment is not None:
            line.show_environment(self._environment)
        self._say()
        self.call_after_refresh(line.begin)

    def show_environment(self, environment: Environment | None) -> None:
        """Take what is known of the machine of the run in sight."""
        if environment is not self._environment:
            self._environment = environment
            if self._line is not None:
                self._line.show_environment(environment)

    def show_machine(self, machine: Environment | None) -> None:
        """Take what is known of this machine, whose pace tells how long the cases would take."""
        if machine is not self._machine:
            self._machine = machine
            self._say()

    def on_forecast_line_judged(self, message: ForecastLine.Judged) -> None:
        """Say beside each model whether it fits."""
        message.stop()
        self.query_one(Checklist).mark(message.marks)

    def on_picker_changed(self, message: Picker.Changed) -> None:
        """Another experiment fills in the form; another card, another forecast."""
        message.stop()
        picker = message.picker
        if picker.id == "pick-card":
            if self._line is not None:
                self._change(card=self._line.picked)
        elif picker.chosen != self.choices.experiment:
            filled = choose_experiment(self.choices, picker.chosen, self.models)
            self._put(filled)
        else:
            self._change(smoke=picker.on)

    def on_checklist_changed(self, message: Checklist.Changed) -> None:
        """Other models."""
        message.stop()
        self._change(models=message.checklist.chosen)

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
        self.query_one(Checklist).focus()

    def focus_error(self, field: str) -> None:
        """Put the cursor on what is wrong, where it is there."""
        for part in self.query(f"#{field}"):
            part.focus()

    def _experiment_picker(self) -> Picker:
        picker = Picker("Experiment", list(self._known), self.choices.experiment,
                        id="pick-experiment", switch="smoke")  # fmt: skip
        self._give_lines(picker)
        self._describe(picker)
        return picker

    def on_resize(self) -> None:
        """Another size, other room for what the experiment is."""
        for picker in self.query("#pick-experiment"):
            self._give_lines(picker)

    def _give_lines(self, picker: Widget) -> None:
        picker.styles.height = 2 if self.app.size.height >= SPACIOUS else 1

    def _describe(self, picker: Picker) -> None:
        """What the experiment is, and whether it can be run small."""
        title, small = self._known.get(self.choices.experiment, ("", False))
        on = self.choices.smoke
        picker.can_switch, picker.on, picker.note = small, on, OWN_SIZES if on else title
        picker.repaint()

    def _put(self, choices: Choices) -> None:
        """Show other choices all over the form."""
        self.choices = choices
        self.query_one(Checklist).put(choices.models)
        for chips in self.query(Chips):
            chips.put(getattr(choices, str(chips.id)))
        if self._numbers is not None:
            self._numbers.put(choices)
        if self._own is not None:
            self._own.value = choices.own_models
        self._changed()

    def _say(self) -> None:
        """Command, note of the experiment, forecast; what is not measured is pale."""
        checked = self.checked
        self.query_one(Equivalent).show(checked, *self._expected(checked))
        alone = is_attention(self.choices.experiment)
        for part in (*self.query(Checklist), *self.query(Chips)):
            part.set_idle(self.choices.smoke or (part.id == OF_ATTENTION and not alone))
        if self._numbers is not None:
            self._numbers.set_class(self.choices.smoke, "-idle")
        self._describe(self.query_one("#pick-experiment", Picker))
        if self._line is not None:
            self._line.show(checked, self.choices.card)

    def _expected(self, checked: Checked) -> tuple[int, float | None]:
        """How many of the form's cases would be measured here, and how long they would take."""
        if checked.experiment is None or self._machine is None:
            return checked.cases, None
        from llmprof.tui.bench.outlook import seconds_of  # not needed for the first frame

        return seconds_of(checked.experiment, self._machine)

    def _change(self, **changes: object) -> None:
        """Take a change; one of what smoke sizes replace is meant to be measured."""
        choices = msgspec.structs.replace(self.choices, **changes)
        if choices == self.choices:
            return
        if not changes.keys() <= _OF_SMOKE:
            choices = msgspec.structs.replace(choices, smoke=False)
        self.choices = choices
        self._changed()

    def _changed(self) -> None:
        self.checked = check_choices(self.choices, self.models)
        if self._numbers is not None:
            self._numbers.mark(self.checked.errors)
        if self._own is not None:
            self._own.set_class("own_models" in self.checked.errors, "-invalid")
        self._say()
        self.post_message(self.Changed(self.choices, self.checked))


def _option(model: ModelShape) -> ChecklistOption:
    note = f"{count_text(model.parameters):>6} · {model.num_layers:>2} layers · d {model.d_model}"
    edition = f" ({model.edition})" if "xl" in model.name and model.edition else ""
    return ChecklistOption(model.name, note + edition)
