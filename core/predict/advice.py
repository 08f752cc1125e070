"""What to change in a case that does not fit, each change as a command that can be run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from llmprof.core.predict.candidates import choices, switched
from llmprof.core.predict.checkpoints import recompute_share
from llmprof.core.predict.closed_form import Unpredictable, predict
from llmprof.core.predict.command import command_of
from llmprof.core.predict.fits import Room, certainly_fits, unsupported
from llmprof.core.predict.flops import lower_bound_bytes
from llmprof.core.spec.axes import MODES, Axis, apart
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import SpecError
from llmprof.core.system.text import spoken

MOST_ADVICE = 5
_MOST_SWITCHED = 3  # ways to keep batch and context
_MOST_DOUBLED = 12  # times a batch
_STEP = 64  # contexts are advised in multiples of this, as kernels like them


@dataclass(frozen=True, slots=True)
class Advice:
    """A case that fits: how it differs, its requested bytes at the peak and its command."""

    text: str
    case: Case
    axes: tuple[Axis, ...]  # on which it differs
    peak_bytes: int
    command: str


def advise(case: Case, room: Room) -> tuple[Advice, ...]:
    """Changes after which a case fits in the room, the least costly first; five at most.

    First come switches that keep mode, batch and context, alone or together, in the order of
    `choices`. None is named that does more than one named before.
    Then the largest batch, the largest context and narrower modes: as the case is where switches
    do, else with the fewest switches that allow them. Fits is what `decide` says, so that advice
    and verdict agree. Empty when nothing fits, or when the closed form does not know the case.
    """
    return tuple(
        Advice(
            _text(case, other),
            other,
            apart(case, other),
            predict(other, room.capability).requested_bytes,
            command_of(other),
        )
        for other in _fitting(case, room)
    )


@lru_cache(64)
def largest_batch(case: Case, room: Room) -> int | None:
    """The case's batch doubled as often as it certainly fits; None where not even once."""
    try:
        predict(case, room.capability)
    except Unpredictable:
        return None
    search = _Search(case, room)
    doubled = [case.batch_size << times for times in range(1, _MOST_DOUBLED + 1)]
    fitting = _leading(_with(case, "batch_size", doubled), search.fits)
    return doubled[fitting - 1] if fitting else None


@lru_cache(64)
def _fitting(case: Case, room: Room) -> tuple[Case, ...]:
    try:
        predict(case, room.capability)
    except Unpredictable:
        return ()
    search = _Search(case, room)
    found = search.by_switches()[:_MOST_SWITCHED]
    bases = [case] if found else [case, *search.all_switched(case)]
    found += search.smaller(bases)
    found += search.narrower(bases)
    return tuple(found[:MOST_ADVICE])


def _text(case: Case, other: Case) -> str:
    """How a case differs from another: "batch 2 instead of 4, with bf16 and SDPA"."""
    changed = apart(case, other)
    switches = [_switch(axis, other) for axis in changed if axis.changes == "switch"]
    larger = [_larger(axis, case, other) for axis in changed if axis.changes != "switch"]
    if not larger:
        return spoken(switches)
    return spoken(larger) + (f", with {spoken(switches)}" if switches else "")


def _switch(axis: Axis, other: Case) -> str:
    """A switch by its name; of checkpoints with what they cost."""
    name = axis.named(axis.of(other))
    more = 100 * recompute_share(other) if axis.field == "checkpoint" else 0
    return f"{name} (computes again: about {more:.0f} % more operations a step)" if more else name


def _larger(axis: Axis, case: Case, other: Case) -> str:
    name = axis.label.lower()
    if axis.values:
        return f"{name} {axis.text(axis.of(other))}"
    return f"{name} {axis.of(other)} instead of {axis.of(case)}"


class _Search:
    """What fits in a room, each case looked at once."""

    def __init__(self, case: Case, room: Room) -> None:
        self.case = case
        self.room = room
        self._known: dict[Case, bool] = {}

    def fits(self, case: Case) -> bool:
        """Whether a case can run on the card and is predicted to fit."""
        if case not in self._known:
            room = self.room
            self._known[case] = (
                unsupported(case.precision, room.capability) is None
                and lower_bound_bytes(case) < room.free_bytes
                and certainly_fits(case, predict(case, room.capability), room)
            )
        return self._known[case]

    def all_switched(self, case: Case) -> Iterator[Case]:
        """The case under every choice of switches, the least costly first."""
        return (switched(case, choice) for choice in choices(case, self.room.capability))

    def by_switches(self) -> list[Case]:
        """Cases that fit by switches alone, without those that switch more than is needed."""
        found: dict[frozenset[str], Case] = {}
        for choice in choices(self.case, self.room.capability):
            axes = frozenset(axis.field for axis, _ in choice)
            other = switched(self.case, choice)
            if not any(fewer <= axes for fewer in found) and self.fits(other):
                found[axes] = other
        return list(found.values())

    def smaller(self, bases: Sequence[Case]) -> list[Case]:
        """The largest batch and the largest context; where neither is enough, both smaller."""
        case = self.case
        contexts = range(_STEP, case.context_length, _STEP)
        found = [
            self._largest(bases, "batch_size", range(1, case.batch_size)),
            self._largest(bases, "context_length", contexts),
        ]
        if found == [None, None] and case.batch_size > 1:
            single = [other for base in bases for other in _with(base, "batch_size", (1,))]
            found = [self._largest(single, "context_length", contexts)]
        return [other for other in found if other is not None]

    def _largest(self, bases: Iterable[Case], field: str, values: range) -> Case | None:
        """The case with the largest of some values that any base fits with; the first such base."""
        best: Case | None = None
        for base in bases:
            least = 0 if best is None else getattr(best, field)
            cases = _with(base, field, (value for value in values if value > least))
            fitting = _leading(cases, self.fits)
            if fitting:
                best = cases[fitting - 1]
        return best

    def narrower(self, bases: Sequence[Case]) -> list[Case]:
        """Narrower modes, the widest first; a further one only where it needs fewer switches."""
        found: list[Case] = []
        for mode in reversed(MODES[: MODES.index(self.case.mode)]):
            cases = (other for base in bases for other in _with(base, "mode", (mode,)))
            other = next(filter(self.fits, cases), None)
            if other is not None:
                found.append(other)
                bases = [base for base in bases if self._changes(base) < self._changes(other) - 1]
        return found

    def _changes(self, other: Case) -> int:
        return len(apart(self.case, other))


def _leading(cases: Sequence[Case], fits: Callable[[Case], bool]) -> int:
    """How many cases from the first on fit, when none does after one that doesn't."""
    if not cases or not fits(cases[0]):
        return 0
    low, high = 1, len(cases)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(cases[middle - 1]):
            low = middle
        else:
            high = middle - 1
    return low


def _with(case: Case, field: str, values: Iterable[object]) -> list[Case]:
    """The case with each of some values on an axis, but for those that do not go with the rest."""
    found = []
    for value in values:
        with suppress(SpecError):
            found.append(msgspec.structs.replace(case, **{field: value}))
    return found
