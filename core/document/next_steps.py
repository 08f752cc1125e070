"""Whether a run is as fast as its device allows, and what to try next: at most three things.

Each step rests on a named measurement, comes with the command that tests it, and says what it may
bring at most where that can be predicted. Where the evidence is thin there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from llmprof.core.catalog.cards import match_device
from llmprof.core.document.commands import TRAIN, judged, profiling
from llmprof.core.document.configurations import parameters, work_of
from llmprof.core.document.cost import NOT_STANDING, unsound_training
from llmprof.core.document.levels import requested_peak_of
from llmprof.core.document.profiles import IDLE, idle_share, part_of, profile_key
from llmprof.core.document.quotes import Quote, Sentence
from llmprof.core.document.steps import Found, step_key
from llmprof.core.document.tables import Tables
from llmprof.core.events.kernel_rows import WHOLE_STEP
from llmprof.core.kernels.attention_stages import SCALE_MASK, SOFT
from llmprof.core.lint.physics import OPTIMIZER_BYTES
from llmprof.core.predict.advice import advise
from llmprof.core.predict.as_event import room_here
from llmprof.core.predict.closed_form import HOPPER, Unpredictable, predict
from llmprof.core.report.sentences import is_launch_bound
from llmprof.core.spec.axes import NONE
from llmprof.core.spec.case import Case, Phase
from llmprof.core.state.view import CaseState

MOST = 3
MULTIPLIED: tuple[Phase, ...] = ("forward", "backward")
WORTH = 0.05  # of a step: what brings less at most is not proposed


@dataclass(frozen=True)
class NextStep:
    """What to try: why, with which command, and what it is expected to bring."""

    evidence: Sentence
    command: str
    expected: str  # rounded bounds, no measurements
    rank: float  # the more it may bring, the earlier
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
    """The verdict on the largest sound training case, and what to try on it."""
    found = _subject(tables)
    if found is None or tables.steps is None:
        unsound = unsound_training(tables.sources)
        if unsound:
            return Outlook((f"A training step was measured, but {NOT_STANDING}: {unsound}.",), ())
        return Outlook((f"No training step was measured that a verdict could rest on; `{TRAIN}` "
                        "measures one.",), ())  # fmt: skip
    proposed = sorted(_proposed(tables, found), key=lambda step: -step.rank)
    return Outlook(_verdict(tables, found), tuple(proposed[:MOST]))


def _subject(tables: Tables) -> Found | None:
    usable = [
        (source, state)
        for source, state in tables.step_cells
        if state.case.mode == "train" and state.total is not None and source.sound(state)
    ]
    return usable[-1] if usable else None


def _profile(tables: Tables, found: Found) -> Found | None:
    """The kernel profile of a case."""
    wanted = found[1].case.configuration()
    return next((each for each in tables.profiled if each[1].case.configuration() == wanted), None)


def _name(tables: Tables, found: Found) -> tuple[str | Quote, ...]:
    assert tables.steps is not None
    return (f"{found[1].case.model.name} ", *work_of(tables.steps, step_key(*found)))


def _verdict(tables: Tables, found: Found) -> Sentence:
    state = found[1]
    table, key = tables.steps, step_key(*found)
    assert table is not None
    name = _name(tables, found)
    profile = _profile(tables, found)
    if is_launch_bound(state):
        if profile is not None and (idle_share(*profile) or 0.0) >= IDLE and tables.profiles:
            idle = tables.profiles.quote(profile_key(*profile, WHOLE_STEP), "Idle of plain")
            return ("Launch-bound: of the step of ", *name, " the card idles ", idle, " %.")
        idles = (
            " the card has caught up with the host at the end of phases that make most of the "
            f"step; how long it idles was not measured, `{profiling(state.case)}` measures it."
        )
        return ("Consistent with a launch-bound step: in ", *name, idles)
    if table.known(key, "Of dense peak"):
        return ("The card sets the pace of ", *name, ", at ", table.quote(key, "Of dense peak"),
                " % of its dense peak.")  # fmt: skip
    return ("The step of ", *name, " takes ", table.quote(key, "Step"),
            " ms; what sets its pace is not known on this device.")  # fmt: skip


def _proposed(tables: Tables, found: Found) -> Iterator[NextStep]:
    yield from _fewer_launches(tables, found)
    if not is_launch_bound(found[1]):
        yield from _lower_precision(tables, found)
        yield from _fused_optimizer(tables, found)
        yield from _fused_attention(tables, found)
    yield from _room(tables)


def _fewer_launches(tables: Tables, found: Found) -> Iterator[NextStep]:
    state = found[1]
    if not is_launch_bound(state) or state.case.compile is not None or tables.steps is None:
        return
    profile = _profile(tables, found)
    if profile is None:
        yield NextStep(
            ("The card has caught up with the host at the end of most phases of ",
             *_name(tables, found)),
            profiling(state.case),
            "it says how long the card idles, the most that fewer launches can bring",
            0.5,
        )  # fmt: skip
        return
    idle = idle_share(*profile)
    if idle is None or idle < IDLE or tables.profiles is None:
        return
    quote = tables.profiles.quote(profile_key(*profile, WHOLE_STEP), "Idle of plain")
    yield NextStep(
        ("The card idles ", quote, " % of the step of ", *_name(tables, found)),
        judged(state.case, "compile", NONE, "reduce-overhead"),
        "at most that idle time, were every launch free",
        idle,
        idle,
    )


def _lower_precision(tables: Tables, found: Found) -> Iterator[NextStep]:
    source, state = found
    case, environment = state.case, state.environment or source.environment
    if case.precision != "fp32" or environment is None or tables.steps is None:
        return
    card = match_device(environment.device_name)
    there = (None, None) if card is None else (card.peak("fp32"), card.peak("bf16"))
    if there[0] is None or there[1] is None or "bf16" in environment.unsupported:
        return
    if _measured(tables, msgspec.structs.replace(case, precision="bf16")):
        return
    assert state.total is not None
    products, why = _products_ms(tables, found)
    saved = products / state.total.mean * (1 - there[0] / there[1])
    if saved >= WORTH:
        yield NextStep(
            ("Forward and backward of ", *_name(tables, found), " take ",
             tables.steps.quote(step_key(*found), "Forward"), " and ",
             tables.steps.quote(step_key(*found), "Backward"), " ms in fp32"),
            judged(case, "precision", "fp32", "bf16"),
            _at_most(saved, why),
            saved,
            saved,
        )  # fmt: skip


def _products_ms(tables: Tables, found: Found) -> tuple[float, str]:
    """What of a step a lower precision acts on at most, and by what that is told."""
    profile = _profile(tables, found)
    parts = [part_of(profile[1], phase) for phase in MULTIPLIED] if profile else []
    known = [part.gemm_ms for part in parts if part is not None]
    if len(known) == len(MULTIPLIED):
        return sum(known), "by the card's dense peaks and the time of matrix products"
    summaries = found[1].summaries
    whole = sum(summaries[phase].mean for phase in MULTIPLIED if phase in summaries)
    return whole, "by the card's dense peaks, were both matrix products alone"


def _fused_optimizer(tables: Tables, found: Found) -> Iterator[NextStep]:
    source, state = found
    case, environment = state.case, state.environment or source.environment
    optimizer = state.summaries.get("optimizer")
    card = None if environment is None else match_device(environment.device_name)
    if case.optimizer == "fused" or optimizer is None or card is None or not card.bandwidth_gbs:
        return
    if not parameters(state):
        return
    if _measured(tables, msgspec.structs.replace(case, optimizer="fused")) or not tables.steps:
        return
    assert state.total is not None
    least = OPTIMIZER_BYTES * parameters(state) / card.bandwidth_gbs / 1e6
    saved = (optimizer.mean - least) / state.total.mean
    if saved >= WORTH:
        yield NextStep(
            ("The optimizer of ", *_name(tables, found), " takes ",
             tables.steps.quote(step_key(*found), "Optimizer"), " ms and moves ",
             tables.steps.quote(step_key(*found), "Optimizer moves"), " GB/s"),
            judged(case, "optimizer", case.optimizer, "fused"),
            _at_most(saved, "by the bytes that it cannot do without"),
            saved,
            saved,
        )  # fmt: skip


def _fused_attention(tables: Tables, found: Found) -> Iterator[NextStep]:
    """SDPA where its kernel profile shows what naive attention takes beside its products."""
    state = found[1]
    profile = _profile(tables, found)
    case = state.case
    if case.attention != "naive" or case.shape is None or profile is None:
        return
    if profile[1].lens is None:
        return
    if _measured(tables, msgspec.structs.replace(case, attention="sdpa")):
        return
    lens = profile[1].lens
    spare = sum(row.device_us for row in lens.rows if row.stage in (SCALE_MASK, SOFT))
    assert state.total is not None
    saved = spare * case.reference.num_layers / 1e3 / state.total.mean
    key = ("forward", SOFT)
    table = next((each for owner, each in tables.lenses if owner == profile), None)
    if saved >= WORTH and table is not None and table.known(key, "Of the layer's time"):
        yield NextStep(
            ("In one layer's attention of ", *_name(tables, found), " the softmax takes ",
             table.quote(key, "Of the layer's time"), " % of the time for ",
             table.quote(key, "Of the layer's operations"), " % of the operations"),
            judged(case, "attention", "naive", "sdpa"),
            _at_most(saved, "by its passes over the scores") + _less_memory(case, state),
            saved,
            saved,
        )  # fmt: skip


def _less_memory(case: Case, state: CaseState) -> str:
    """What prediction says of the peak without scores in memory."""
    before = requested_peak_of(state)
    environment = state.environment
    try:
        after = predict(
            msgspec.structs.replace(case, attention="sdpa"),
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
                0.3,
            )  # fmt: skip
            return


def _measured(tables: Tables, case: Case) -> bool:
    """Whether a case was measured already."""
    wanted = case.configuration()
    return any(
        state.case.configuration() == wanted
        for source in tables.sources
        for state in source.cases
        if state.total is not None
    )


def _at_most(saved: float, why: str) -> str:
    return f"at most about {round(100 * saved):d} % off the step, {why}"
