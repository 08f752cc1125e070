"""One thing to try, and the step that it is to be tried on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from llmprof.core.catalog.cards import match_device
from llmprof.core.document.changes import Change
from llmprof.core.document.configurations import work_of
from llmprof.core.document.gains import ALONE, Bound, host_floor, own_enqueueing_ms, products_ms
from llmprof.core.document.quotes import Quote, Sentence
from llmprof.core.document.steps import Found, step_key
from llmprof.core.document.tables import Tables
from llmprof.core.events import Environment
from llmprof.core.spec.axes import SWITCHES, apart
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState

WORTH = 0.05  # of a step: what brings less at most is not proposed
MEASURED, COMPILED, BATCH, OTHER = range(4)  # in this order


@dataclass(frozen=True)
class NextStep:
    """What to try: why, with which command, and what it is expected to bring.

    command: "" where it was measured and judged already: then the evidence says how to set it.
    """

    evidence: Sentence
    command: str
    expected: str
    order: int
    bound: float | None = None  # share of the step that may go, where that is known

    @property
    def promise(self) -> Quote:
        """What it may bring, as the table of what may be tried has it."""
        return Quote(self.expected, "next-steps", self.command, "Expected")

    @property
    def told(self) -> Sentence:
        """Why, the command, what it may bring."""
        command = (f": `{self.command}`",) if self.command else ()
        return ("To try: ", *self.evidence, *command, ". Expected: ", self.promise, ".")


@dataclass(frozen=True)
class Target:
    """The step that something is to be tried on, with the tables of its document."""

    tables: Tables
    found: Found

    @property
    def state(self) -> CaseState:
        """The case."""
        return self.found[1]

    @property
    def case(self) -> Case:
        """What it is."""
        return self.state.case

    @property
    def environment(self) -> Environment | None:
        """Where it ran."""
        return self.state.environment or self.found[0].environment

    @cached_property
    def quicker(self) -> list[Change]:
        """What is told to shorten this very step, the most first."""
        wanted = self.case.configuration()
        found = [
            change
            for change in self.tables.all_changes
            if change.found.base.case.configuration() == wanted
            and not change.why_not
            and change.found.total.decision == "faster"
        ]
        return sorted(found, key=lambda change: change.found.total.time.value)

    @cached_property
    def now(self) -> CaseState:
        """The quickest way to do this step that was measured and judged."""
        return self.quicker[0].found.other if self.quicker else self.state

    @property
    def ms(self) -> float:
        """What it takes that way."""
        assert self.now.total is not None
        return self.now.total.mean

    @property
    def way(self) -> str:
        """of the step, or of the step with what makes it quickest."""
        return f"the step with {self.quicker[0].name}" if self.quicker else "the step"

    @property
    def name(self) -> Sentence:
        """small (128 tokens)."""
        return step_name(self.tables, self.found)

    def cell(self, header: str) -> Quote:
        """Its cell in the table of steps."""
        assert self.tables.steps is not None
        return self.tables.steps.quote(step_key(*self.found), header)

    def measured(self, case: Case) -> bool:
        """Whether a case was measured already."""
        wanted = case.configuration()
        return any(
            state.case.configuration() == wanted
            for source in self.tables.sources
            for state in source.cases
            if state.total is not None
        )

    def at_most(self, least: Bound) -> tuple[str, float]:
        """What may go of the quickest way at most, in words and as a fraction."""
        saved = 1 - least.ms / self.ms
        share = f"about {_percent(saved)} off {self.way}"
        if least.rough:
            return f"{share}, a rough estimate {least.why}", saved
        return f"at most {share}, {least.why}", saved

    def capped(self, card: Bound, case: Case) -> tuple[str, float]:
        """The same of a case that leaves the card so much to do, with what the host leaves.

        By steps of the same launches that the host set the pace of; where there are none, what the
        host takes now is told beside it, and no more than that may be hoped for.
        """
        floor = host_floor(self.tables, case)
        if floor is not None and floor.ms > card.ms and card.why.endswith(ALONE):
            floor = Bound(floor.ms, floor.why + ALONE)
        if floor is not None:
            return self.at_most(max(card, floor, key=lambda each: each.ms))
        text, saved = self.at_most(card)
        now = own_enqueueing_ms(self.now)
        if now is None or now <= card.ms:
            return text, saved
        left = 1 - now / self.ms
        return f"{text}; {_percent(left)} if the host enqueues it no faster", left


def _percent(share: float) -> str:
    return f"{round(100 * share):d} %"


def step_name(tables: Tables, found: Found) -> Sentence:
    """small (128 tokens), by its cells. tables.steps holds it."""
    assert tables.steps is not None
    return (f"{found[1].case.model.name} ", *work_of(tables.steps, step_key(*found)))


def card_floor(of: Target, case: Case) -> Bound | None:
    """The least that the card takes for a step in another precision alone.

    Its products are quicker by the ratio of the dense peaks, and all else is not.
    """
    precision = case.precision
    if [axis.field for axis in apart(of.case, case, SWITCHES)] != ["precision"]:
        return None
    card = None if of.environment is None else match_device(of.environment.device_name)
    peaks = (None, None) if card is None else (card.peak(of.case.precision), card.peak(precision))
    if peaks[0] is None or peaks[1] is None or of.state.total is None:
        return None
    products = products_ms(of.tables, of.found)
    least = of.state.total.mean - products.ms * max(0.0, 1 - peaks[0] / peaks[1])
    return Bound(least, f"by the card's dense peaks{products.why}", products.rough)
