"""What the form's cases would need of a card, by the closed form, a slice of time at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
import psutil

from llmprof.core.catalog.cards import load_cards, match_device
from llmprof.core.devices.driver_files import card_names
from llmprof.core.events import Environment
from llmprof.core.predict.as_event import free_for_a_process
from llmprof.core.predict.closed_form import HOPPER, MemoryPrediction, Unpredictable, predict
from llmprof.core.predict.fits import FitVerdict, Room, fit_verdict, needed_bytes, room_of
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import ModelShape, SpecError
from llmprof.core.system.host_memory import available_bytes, limit_bytes
from llmprof.core.system.text import clean

DEFAULT_CARD = "H100-80GB"
THIS_MACHINE = "this machine"
MOST_UNTICKED = 300  # cases beyond those that would run are forecast only up to here
_WORST: dict[FitVerdict, int] = {"fits": 0, "too close to say": 1, "does not fit": 2}


@dataclass(frozen=True)
class CardChoice:
    """The card that a forecast is for."""

    room: Room
    here: bool  # in this machine, or where the run in sight was made

    @property
    def name(self) -> str:
        """The card's name, cleaned."""
        return clean(self.room.name, 40)


@dataclass(frozen=True)
class Need:
    """One case: what it takes of the card (least and most bytes) and whether that fits."""

    case: Case
    low: int
    high: int
    verdict: FitVerdict


def published_cards() -> tuple[str, ...]:
    """Cards whose memory is known, the default one first; none where a file is broken."""
    try:
        names = list(load_cards())
    except SpecError:
        return ()
    return tuple(sorted(names, key=lambda name: name != DEFAULT_CARD))


def named_card(name: str) -> CardChoice | None:
    """A card of the presets, None if there is no such one or a file is broken."""
    try:
        card = load_cards().get(name)
    except SpecError:
        return None
    return None if card is None else CardChoice(room_of(card), here=False)


def card_here(folder: Path | None = None) -> CardChoice | None:
    """This machine's card, as the driver's files name it, if its memory is published.

    None without a card, without one that may be used, and where cards of several kinds make it
    unclear which is meant: a run's environment tells then.
    """
    names = card_names(folder)
    card = match_device(names[0]) if len(names) == 1 else None
    return None if card is None else CardChoice(room_of(card), here=True)


def machine_here() -> CardChoice:
    """The memory of this machine, in which cases run that have no card."""
    total = limit_bytes() or psutil.virtual_memory().total
    taken = max(0, total - available_bytes())
    return CardChoice(Room(THIS_MACHINE, total, HOPPER, taken), here=True)


def device_here(device: str) -> CardChoice | None:
    """Where the cases of an experiment for a device would run; None for a card not known."""
    if device == "cpu" or not card_names():
        return machine_here()
    return card_here()


def card_of_machine(environment: Environment | None) -> CardChoice | None:
    """The card of a run's machine, None where it had none or its memory was not read."""
    if environment is None or environment.memory_total_bytes is None:
        return None
    if not environment.device.startswith("cuda"):
        return None
    total, free = environment.memory_total_bytes, free_for_a_process(environment)
    capability = environment.capability
    if capability is None:
        known = match_device(environment.device_name)
        capability = HOPPER if known is None else known.capability
    taken = 0 if free is None else max(0, total - free)
    name = clean(environment.device_name, 40)
    room = Room(name, total, capability, taken, environment.context_bytes)
    return CardChoice(room, here=True)


def every_model(experiment: Experiment, models: Mapping[str, ModelShape]) -> list[Case]:
    """The cases that an experiment would have with the models that it leaves out."""
    if experiment.probe == "attention":
        return []
    left = tuple(model for model in models.values() if model not in experiment.models)
    try:
        return list(msgspec.structs.replace(experiment, models=left).cases()) if left else []
    except SpecError:  # a model that cannot have this context or these heads
        return []


class Forecast:
    """Needs of the cases that would run, the largest first, then of other models' cases."""

    def __init__(self, card: CardChoice, ticked: Sequence[Case], others: Iterable[Case]) -> None:
        self.card = card
        self.needs: list[Need] = []
        self.unknown = 0  # cases that the closed form does not know
        self.by_model: dict[str, FitVerdict] = {}
        self.ticked = len(ticked)
        first = sorted(ticked, key=_weight, reverse=True)
        rest = sorted(others, key=_weight, reverse=True)
        self._first, self._rest = len(first), rest[:MOST_UNTICKED]
        self._waiting = [*first, *self._rest]
        self._at = 0

    @property
    def done(self) -> bool:
        """Whether every case has been looked at."""
        return self._at >= len(self._waiting)

    @property
    def counted(self) -> bool:
        """Whether every case that would run has been looked at."""
        return self._at >= self._first

    @property
    def largest(self) -> Need | None:
        """Of the cases that would run, the one that takes most."""
        return max(self.needs, key=lambda need: need.high, default=None)

    def count(self, wanted: FitVerdict) -> int:
        """Cases that would run and have a verdict."""
        return sum(need.verdict == wanted for need in self.needs)

    def work(self, seconds: float, clock: Callable[[], float] = time.perf_counter) -> bool:
        """Go on for about so long, one case at least; whether all are done."""
        end = clock() + seconds
        while not self.done:
            self._look(self._waiting[self._at], ticked=self._at < self._first)
            self._at += 1
            if clock() >= end:
                break
        return self.done

    def _look(self, case: Case, *, ticked: bool) -> None:
        found = _predicted(_plain(case), self.card.room.capability)
        if found is None:
            self.unknown += ticked
            return
        room = self.card.room
        low, high = needed_bytes(found, room.context_bytes)
        need = Need(case, low, high, fit_verdict(found, room.free_bytes, room.context_bytes))
        if ticked:
            self.needs.append(need)
        name = case.model.name
        worst = max(need.verdict, self.by_model.get(name, "fits"), key=_WORST.__getitem__)
        self.by_model[name] = worst


def _plain(case: Case) -> Case:
    """The case without what does not bear on memory, so that it is predicted once."""
    return msgspec.structs.replace(case, warmup_steps=5, measure_steps=10, seed=0, device="auto")


@lru_cache(4096)
def _predicted(case: Case, capability: tuple[int, int]) -> MemoryPrediction | None:
    try:
        return predict(case, capability)
    except Unpredictable:
        return None


def _weight(case: Case) -> float:
    """Roughly what a case needs: the most demanding ones are looked at first."""
    model = case.shape
    if model is None:
        return 0.0
    states = {"forward": 4, "forward-grad": 4, "forward-backward": 8, "train": 20}[case.mode]
    tokens = case.batch_size * case.context_length
    saved = tokens * model.num_layers * (20 * model.d_model + model.num_heads * case.context_length)
    return model.parameters * states + (saved if case.mode != "forward" else 0)
