"""Whether a run is as fast as its device allows, and what to try next: at most three things.

First what was already measured to help, then what may add to it, a larger batch where the host
sets the pace, then others. Each rests on a named measurement, comes with the command that tests it,
and says what it may bring at most, capped by what else was measured. Where the evidence is thin, or
the cap is low, there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from msgspec.structs import replace

from llmprof.core.catalog.cards import match_device
from llmprof.core.document.changes import Change
from llmprof.core.document.commands import TRAIN, judged, judged_together, profiling
from llmprof.core.document.configurations import parameters, work_of
from llmprof.core.document.cost import NOT_STANDING, unsound_training
from llmprof.core.document.gains import ALONE, Bound, host_floor, own_enqueueing_ms, products_ms
from llmprof.core.document.levels import requested_peak_of
from llmprof.core.document.paces import idle_profile, idle_quote, paces_of, profile_of
from llmprof.core.document.profiles import idle_share
from llmprof.core.document.quotes import Quote, Sentence, listed
from llmprof.core.document.steps import Found, step_key
from llmprof.core.document.tables import Tables
from llmprof.core.document.verdict import verdict
from llmprof.core.events import Environment
from llmprof.core.kernels.attention_stages import SCALE_MASK, SOFT
from llmprof.core.lint.physics import OPTIMIZER_BYTES
from llmprof.core.predict.advice import advise, largest_batch
from llmprof.core.predict.as_event import room_here
from llmprof.core.predict.closed_form import HOPPER, Unpredictable, predict
from llmprof.core.predict.command import command_of
from llmprof.core.report.sentences import is_launch_bound
from llmprof.core.spec.axes import NONE, SWITCHES, apart
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState

MOST = 3
WORTH = 0.05  # of a step: what brings less at most is not proposed
MEASURED, COMBINED, BATCH, OTHER = range(4)  # in this order


@dataclass(frozen=True)
class NextStep:
    """What to try: why, with which command, and what it is expected to bring."""

    evidence: Sentence
    command: str
    expected: str  # rounded bounds, no measurements
    order: int
    bound: float | None = None  # share of the step that may go at most, where that is known

    @property
    def promise(self) -> Quote:
        """What it may bring, as the table of what may be tried has it."""
        return Quote(self.expected, "next-steps", self.command, "Expected")


@dataclass(frozen=True)
class Outlook:
    """The verdict on a run, and the next steps, the most promising first."""

    verdict: Sentence
    steps: tuple[NextStep, ...]

    @property
    def lines(self) -> tuple[Sentence, ...]:
        """The verdict, then a line a step: why, the command, what it may bring."""
        return (
            ("Verdict. ", *self.verdict),
            *(
                ("To try: ", *step.evidence, f": `{step.command}`. Expected: ", step.promise, ".")
                for step in self.steps
            ),
        )


def outlook(tables: Tables) -> Outlook:
    """The verdict on whole training steps, and what to try on the largest sound one."""
    found = _largest(tables)
    if found is None or tables.steps is None:
        unsound = unsound_training(tables.sources)
        if unsound:
            return Outlook((f"A training step was measured, but {NOT_STANDING}: {unsound}.",), ())
        return Outlook((f"No training step was measured that a verdict could rest on; `{TRAIN}` "
                        "measures one.",), ())  # fmt: skip
    proposed = sorted(
        _proposed(Subject(tables, found)), key=lambda step: (step.order, -(step.bound or 0.0))
    )
    return Outlook(verdict(tables, found), tuple(proposed[:MOST]))


def _largest(tables: Tables) -> Found | None:
    usable = [
        (source, state)
        for source, state in tables.step_cells
        if state.case.mode == "train" and state.total is not None and source.sound(state)
    ]
    return usable[-1] if usable else None


@dataclass(frozen=True)
class Subject:
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
        return _name(self.tables, self.found)

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
        return f"at most about {_percent(saved)} off {self.way}, {least.why}", saved

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


def _name(tables: Tables, found: Found) -> Sentence:
    assert tables.steps is not None
    return (f"{found[1].case.model.name} ", *work_of(tables.steps, step_key(*found)))


def _proposed(of: Subject) -> Iterator[NextStep]:
    yield from _already(of)
    if is_launch_bound(of.now):
        yield from _fewer_launches(of)
    else:
        yield from _together(of)
        yield from _lower_precision(of)
        yield from _fused_optimizer(of)
        yield from _fused_attention(of)
    yield from _larger_batch(of)
    yield from _room(of.tables)


def _already(of: Subject) -> Iterator[NextStep]:
    """What was measured to help most."""
    table = of.tables.changes
    if not of.quicker or table is None:
        return
    best = of.quicker[0]
    key = best.key(best.found.total)
    yield NextStep(
        table.told(
            key,
            "{Switch} shortens the step of {Size} {work} from {Baseline} to {With it} ms",
            work=work_of(table, key),
        ),
        command_of(best.found.other.case),
        f"{table.quote(key, 'Change').text} %, already measured: use it",
        MEASURED,
        1 - best.found.total.time.value,
    )


def _fewer_launches(of: Subject) -> Iterator[NextStep]:
    """Compiling where the host sets the pace of the quickest way; a profile where none tells it."""
    if of.now.case.compile is not None:
        return
    compiled = replace(of.now.case, compile="reduce-overhead")
    if of.measured(compiled):
        return
    command = judged(of.now.case, "compile", NONE, "reduce-overhead")
    profile = idle_profile(of.tables, of.now)
    if profile is not None:
        idle = idle_share(*profile) or 0.0
        yield NextStep(
            ("The card idles ", idle_quote(of.tables, profile), " % of the step of ", *of.name),
            command,
            "at most that idle time, were every launch free",
            COMBINED,
            idle,
        )
    elif of.quicker:
        yield from _compiled_as_well(of, command)
    else:
        yield NextStep(
            ("The card has caught up with the host at the end of most phases of ", *of.name),
            profiling(of.case),
            "it says how long the card idles, the most that fewer launches can bring",
            OTHER,
        )


def _compiled_as_well(of: Subject, command: str) -> Iterator[NextStep]:
    """Compiling beside what made the host set the pace, down to what the card then takes."""
    table, best = of.tables.changes, of.quicker[0]
    if table is None or best.found.processes < 2:
        return
    key = best.key(best.found.total)
    evidence = table.told(
        key,
        "With {Switch} the host sets the pace of {Size} {work}, {With it} ms a step",
        work=work_of(table, key),
    )
    card = _card_floor(of, of.now.case)
    if card is None or is_launch_bound(of.state):
        told = "at most the card's idle time in it, which `llmprof run kernels` measures"
        yield NextStep(evidence, command, told, COMBINED)
        return
    expected, saved = of.at_most(card)
    if saved >= WORTH:
        yield NextStep(evidence, command, expected, COMBINED, saved)


def _card_floor(of: Subject, case: Case) -> Bound | None:
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
    return Bound(least, f"by the card's dense peaks{products.why}")


def _together(of: Subject) -> Iterator[NextStep]:
    """Several switches that were each told to help, where they were not measured together."""
    if len(of.quicker) < 2 or of.tables.changes is None:
        return
    case, ratio = of.now.case, 1.0
    values: dict[str, list[str]] = {}
    for change in of.quicker[1:]:
        axes = apart(of.case, change.found.other.case, SWITCHES)
        if any(axis.of(case) != axis.of(of.case) for axis in axes):
            continue
        case = replace(case, **{axis.field: axis.of(change.found.other.case) for axis in axes})
        ratio *= change.found.total.time.value
        values |= {
            axis.field: [axis.text(axis.of(of.case)), axis.text(axis.of(case))] for axis in axes
        }
    if not values or of.measured(case):
        return
    expected, saved = of.capped(Bound(ratio * of.ms, "by what each brings alone"), case)
    if saved >= WORTH:
        names = [change.name for change in of.quicker]
        table, keys = of.tables.changes, [each.key(each.found.total) for each in of.quicker]
        yield NextStep(
            (f"{' and '.join(names)} shorten the step of ", *of.name, " to ",
             *listed([(table.quote(key, "With it"), " ms") for key in keys]),
             " each alone, and were not measured together"),
            judged_together(of.now.case, values),
            expected,
            COMBINED,
            saved,
        )  # fmt: skip


def _larger_batch(of: Subject) -> Iterator[NextStep]:
    """A larger batch where the host sets the pace: by how the step grew with its tokens."""
    tables = of.tables
    bound = [
        each
        for each in paces_of(tables).host
        if each[1].case.mode == "train" and each[0].sound(each[1])
    ]
    if not bound or tables.steps is None:
        return
    source, state = found = bound[-1]
    environment = state.environment or source.environment
    room = None if environment is None else room_here(environment)
    most = None if room is None else largest_batch(state.case, room)
    if most is None or state.total is None:
        return
    fits = f"batch {most:,} fits by prediction"
    longer = _of_more_tokens(tables, found)
    evidence: Sentence = ("The host sets the pace of ", *_name(tables, found), ", ",
                          tables.steps.quote(step_key(*found), "Step"), " ms a step")  # fmt: skip
    if longer is None or longer[1].total is None:
        batch = min(most, 4 * state.case.batch_size)
        told = (f"up to {batch // state.case.batch_size} × the tokens a second while the host "
                f"sets the pace; {fits}")  # fmt: skip
    else:
        batch = min(most, longer[1].case.tokens // state.case.context_length)
        evidence = (*evidence, ", and ", *_name(tables, longer), " takes ",
                    tables.steps.quote(step_key(*longer), "Step"), " ms")  # fmt: skip
        times = batch / state.case.batch_size * state.total.mean / longer[1].total.mean
        if times < 1 + WORTH:
            return
        told = f"about {times:.1f} × the tokens a second, as the step grew with tokens; {fits}"
    small = str(state.case.batch_size)
    yield NextStep(evidence, judged(state.case, "batch_size", small, str(batch)), told, BATCH)


def _of_more_tokens(tables: Tables, found: Found) -> Found | None:
    """The same step of the most tokens that was measured, by a longer context or a larger batch."""
    case = found[1].case
    more = [
        each
        for each in tables.step_cells
        if each[1].total is not None
        and each[0].sound(each[1])
        and replace(each[1].case, context_length=1, batch_size=1).configuration()
        == replace(case, context_length=1, batch_size=1).configuration()
        and each[1].case.tokens >= 2 * case.tokens
    ]
    return max(more, key=lambda each: each[1].case.tokens, default=None)


def _lower_precision(of: Subject) -> Iterator[NextStep]:
    if of.case.precision != "fp32" or of.environment is None:
        return
    case = replace(of.case, precision="bf16")
    card = _card_floor(of, case)
    if card is None or "bf16" in of.environment.unsupported or of.measured(case):
        return
    expected, saved = of.capped(card, case)
    if saved >= WORTH:
        yield NextStep(
            ("Forward and backward of ", *of.name, " take ", of.cell("Forward"), " and ",
             of.cell("Backward"), " ms in fp32"),
            judged(of.case, "precision", "fp32", "bf16"),
            expected,
            OTHER,
            saved,
        )  # fmt: skip


def _fused_optimizer(of: Subject) -> Iterator[NextStep]:
    optimizer = of.now.summaries.get("optimizer")
    card = None if of.environment is None else match_device(of.environment.device_name)
    if of.now.case.optimizer == "fused" or optimizer is None:
        return
    if card is None or not card.bandwidth_gbs or not parameters(of.state):
        return
    if of.measured(replace(of.case, optimizer="fused")):
        return
    least = OPTIMIZER_BYTES * parameters(of.state) / card.bandwidth_gbs / 1e6
    expected, saved = of.at_most(
        Bound(of.ms - optimizer.mean + least, "by the bytes that it cannot do without")
    )
    if saved >= WORTH:
        yield NextStep(
            ("The optimizer of ", *of.name, " takes ", of.cell("Optimizer"), " ms and moves ",
             of.cell("Optimizer moves"), " GB/s"),
            judged(of.now.case, "optimizer", of.case.optimizer, "fused"),
            expected,
            OTHER,
            saved,
        )  # fmt: skip


def _fused_attention(of: Subject) -> Iterator[NextStep]:
    """SDPA where its kernel profile shows what naive attention takes beside its products."""
    profile, case = profile_of(of.tables, of.state), of.case
    if of.now.case.attention != "naive" or case.shape is None or profile is None:
        return
    lens = profile[1].lens
    if lens is None or of.measured(replace(case, attention="sdpa")):
        return
    spare = sum(row.device_us for row in lens.rows if row.stage in (SCALE_MASK, SOFT))
    spare_ms = spare * case.reference.num_layers / 1e3
    expected, saved = of.at_most(Bound(of.ms - spare_ms, "by its passes over the scores"))
    key = ("forward", SOFT)
    table = next((each for owner, each in of.tables.lenses if owner == profile), None)
    if saved >= WORTH and table is not None and table.known(key, "Of its time"):
        yield NextStep(
            ("In one layer's attention of ", *of.name, " the softmax takes ",
             table.quote(key, "Of its time"), " % of the time for ",
             table.quote(key, "Of its operations"), " % of the operations"),
            judged(of.now.case, "attention", "naive", "sdpa"),
            expected + _less_memory(case, of.state),
            OTHER,
            saved,
        )  # fmt: skip


def _less_memory(case: Case, state: CaseState) -> str:
    """What prediction says of the peak without scores in memory."""
    before = requested_peak_of(state)
    environment = state.environment
    try:
        after = predict(
            replace(case, attention="sdpa"),
            HOPPER if environment is None or not environment.capability else environment.capability,
        ).requested_bytes
    except Unpredictable:
        return ""
    if not before or after >= before:
        return ""
    return f", and by prediction a peak about {round(100 * (1 - after / before)):d} % lower"


def _room(tables: Tables) -> Iterator[NextStep]:
    """A command that fits in place of the smallest case that did not."""
    for source, state in tables.out_of_memory:
        environment = state.environment or source.environment
        key = (source.name, state.index)
        room = None if environment is None else room_here(environment)
        if room is None or tables.predicted is None:
            continue
        if not tables.predicted.known(key, "Predicted"):
            continue
        advised = advise(state.case, room)
        if advised:
            yield NextStep(
                (f"{state.case.model.name}, {state.case.mode}, was predicted to need ",
                 tables.predicted.quote(key, "Predicted"), " MiB and did not fit"),
                advised[0].command,
                f"it fits: {advised[0].text}",
                OTHER,
            )  # fmt: skip
            return
