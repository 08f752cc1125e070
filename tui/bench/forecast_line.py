"""What the form's cases need of a card, predicted while the form is filled in."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message

from llmprof.tui.bench.fits import VERDICT_ROLES, FitsBar
from llmprof.tui.kit.checklist import ChecklistMarks
from llmprof.tui.kit.picker import Picker
from llmprof.tui.session.choices import Checked

if TYPE_CHECKING:
    from llmprof.core.events import Environment
    from llmprof.core.spec.shape import ModelShape
    from llmprof.tui.bench.forecast import CardChoice, Forecast

SLICE_S = 0.03  # of forecasting before the screen has its turn
THIS = "this card"
UNKNOWN = "memory is predicted for whole models, not for attention alone"
ANOTHER = "←→ picks another"


class ForecastLine(Container):
    """The card that is meant, a bar against its memory, a verdict.

    Nothing is predicted before begin(), so that the first frame need not wait for it.
    """

    DEFAULT_CSS = """
    ForecastLine { height: auto; layout: vertical; }
    """

    class Judged(Message):
        """Models have other verdicts now."""

        def __init__(self, marks: ChecklistMarks) -> None:
            super().__init__()
            self.marks = marks

    def __init__(self, models: dict[str, ModelShape], card: str) -> None:
        super().__init__(id="forecast")
        self._models = models
        self._begun = False
        self._here: CardChoice | None = None  # None: there is none, or it is not known yet
        self._card = card
        self._checked: Checked | None = None
        self._prediction: Forecast | None = None

    def compose(self) -> ComposeResult:
        """Card and bar; the names of cards come with begin()."""
        yield Picker("Memory", (self._card or "",), self._card or "", id="pick-card")
        yield FitsBar()

    @property
    def picked(self) -> str:
        """The card that was picked by name, "" for the one that is there or assumed."""
        picker = self.query_one(Picker)
        return "" if picker.chosen == picker.options[0] else picker.chosen

    def begin(self) -> None:
        """Name the cards and predict from now on."""
        if self._begun:
            return
        from llmprof.tui.bench.forecast import (  # not needed for the first frame
            device_here,
            published_cards,
        )

        self._begun = True
        self._here = self._here or device_here("auto")
        self.query_one(Picker).offer((self._at_home(), *published_cards()), self._card)
        self._predict()

    def show_environment(self, environment: Environment | None) -> None:
        """Take the card of a run's machine; one without a card changes nothing."""
        from llmprof.tui.bench.forecast import (
            card_of_machine,  # a run is watched: no first frame waits
        )

        card = card_of_machine(environment)
        if card is not None and card != self._here:
            self._here = card
            self._predict()

    def show(self, checked: Checked, card: str) -> None:
        """Take a checked form, and the name of the card that is picked in it."""
        self._checked, self._card = checked, card
        self._predict()

    def _at_home(self) -> str:
        from llmprof.tui.bench.forecast import DEFAULT_CARD, THIS_MACHINE

        if self._here is None:
            return f"no card known, as {DEFAULT_CARD}"
        return THIS_MACHINE if self._here.room.name == THIS_MACHINE else THIS

    def _predict(self) -> None:
        """Predict what the cases need, a slice at once, so that no key waits for it."""
        checked = self._checked
        if not self._begun or checked is None:
            return
        from llmprof.tui.bench.forecast import DEFAULT_CARD, Forecast, every_model, named_card

        card = named_card(self._card) or self._here or named_card(DEFAULT_CARD)
        picker = self.query_one(Picker)
        picker.rename_first(self._at_home())
        known = card is not None and card.here and card.name != picker.options[0]
        picker.note = card.name if card is not None and known else "" if self._card else ANOTHER
        picker.repaint()
        if card is None or checked.experiment is None:
            self._prediction = None
            self.query_one(FitsBar).show(None)
            self.post_message(self.Judged({}))
            return
        ticked = checked.experiment.cases()
        others = () if checked.smoke else every_model(checked.experiment, self._models)
        self._prediction = Forecast(card, ticked, others)
        self._go_on(self._prediction)

    def _go_on(self, forecast: Forecast) -> None:
        if forecast is not self._prediction:
            return  # the form says something else by now
        if not forecast.work(SLICE_S):
            self.set_timer(SLICE_S, partial(self._go_on, forecast))
        self.query_one(FitsBar).show(
            forecast, "memory is predicted for whole models, not for attention alone"
        )
        marks: ChecklistMarks = {
            name: (said, VERDICT_ROLES[said]) for name, said in forecast.by_model.items()
        }
        self.post_message(self.Judged(marks))
