"""What helps where the host sets the pace: fewer launches, or more work in each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from msgspec.structs import replace

from llmprof.core.document.commands import judged, profiling
from llmprof.core.document.configurations import work_of
from llmprof.core.document.gains import ALONE
from llmprof.core.document.next_step import (
    BATCH,
    COMPILED,
    OTHER,
    WORTH,
    NextStep,
    Target,
    card_floor,
    step_name,
)
from llmprof.core.document.paces import idle_profile, idle_quote, paces_of
from llmprof.core.document.profiles import idle_share
from llmprof.core.document.proposals.unjudged import (
    compile_lead,
    judged_lead,
    lead_change,
    lead_told,
)
from llmprof.core.document.quotes import Sentence
from llmprof.core.document.steps import Found, between_processes, step_key
from llmprof.core.document.tables import Tables
from llmprof.core.predict.advice import largest_batch
from llmprof.core.predict.as_event import room_here
from llmprof.core.report.sentences import is_launch_bound
from llmprof.core.spec.axes import NONE, CompileMode
from llmprof.core.state.view import CaseState
from llmprof.core.stats.summary import Summary


def compiled(of: Target) -> Iterator[NextStep]:
    """Compiling where the host sets the pace of the quickest way, or one process says it helps."""
    lead = compile_lead(of.tables)
    mode = None if lead is None else lead.found.other.case.compile
    own = _compiled_here(of, mode or "reduce-overhead")
    if own is None and lead is not None:
        yield judged_lead(of.tables, lead)
    elif own is not None and lead is not None:
        yield dataclasses.replace(
            own,
            evidence=(*lead_told(of.tables, lead), ". ", *own.evidence),
            expected=f"{own.expected}; {lead_change(of.tables, lead)} by that one process",
        )
    elif own is not None:
        yield own


def profiled(of: Target) -> Iterator[NextStep]:
    """A profile of a step that the host sets the pace of, where none tells how long the card idles.

    It comes before compiling, and only where nothing was told to help.
    """
    if of.quicker or of.now.case.compile is not None or idle_profile(of.tables, of.now) is not None:
        return
    yield NextStep(
        ("The card has caught up with the host at the end of most phases of ", *of.name),
        profiling(of.case),
        "it says how long the card idles, the most that fewer launches can bring",
        OTHER,
    )


def _compiled_here(of: Target, mode: CompileMode) -> NextStep | None:
    """Compiling the quickest way, where a profile or what made it quick says what that may bring.

    An estimate: fewer launches save no more than the card's idle time, but kernels are fused, too.
    """
    if not is_launch_bound(of.now) or of.now.case.compile is not None:
        return None
    if of.measured(replace(of.now.case, compile=mode)):
        return None
    command = judged(of.now.case, "compile", NONE, mode)
    profile = idle_profile(of.tables, of.now)
    if profile is not None:
        return NextStep(
            ("The card idles ", idle_quote(of.tables, profile), " % of the step of ", *of.name),
            command,
            "about that idle time, were every launch free",
            COMPILED,
            idle_share(*profile) or 0.0,
        )
    return _compiled_as_well(of, command) if of.quicker else None


def _compiled_as_well(of: Target, command: str) -> NextStep | None:
    """Compiling beside what made the host set the pace, down to what the card then takes."""
    table, best = of.tables.changes, of.quicker[0]
    if table is None or best.found.processes < 2:
        return None
    key = best.key(best.found.total)
    evidence = table.told(
        key,
        "With {Switch} the host sets the pace of {Size} {work}, {With it} ms a step",
        work=work_of(table, key),
    )
    card = card_floor(of, of.now.case)
    if card is None or is_launch_bound(of.state):
        command_of_idle = profiling(of.now.case)
        told = f"about the card's idle time in it, which `{command_of_idle}` measures"
        return NextStep(evidence, command, told, COMPILED)
    bound = card.why.endswith(ALONE)  # nothing is left of what fused kernels could spare
    expected, saved = of.at_most(dataclasses.replace(card, rough=not bound))
    return NextStep(evidence, command, expected, COMPILED, saved) if saved >= WORTH else None


def larger_batch(of: Target) -> Iterator[NextStep]:
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
    fits = f"batch {most:,} fits by prediction, and a larger batch changes the training"
    longer = _of_more_tokens(tables, found)
    evidence: Sentence = ("The host sets the pace of ", *step_name(tables, found), ", ",
                          *_step_ms(tables, found), " a step")  # fmt: skip
    if longer is None:
        batch = min(most, 4 * state.case.batch_size)
        told = (f"up to {batch // state.case.batch_size} × the tokens a second while the host "
                f"sets the pace; {fits}")  # fmt: skip
    else:
        batch = min(most, longer[1].case.tokens // state.case.context_length)
        evidence = (*evidence, ", and ", *step_name(tables, longer), " takes ",
                    *_step_ms(tables, longer))  # fmt: skip
        gain = _gain(batch / state.case.batch_size, state, longer[1])
        if gain is None:
            return
        told = f"{gain}, as the step grew with tokens; {fits}"
    small = str(state.case.batch_size)
    yield NextStep(evidence, judged(state.case, "batch_size", small, str(batch)), told, BATCH)


def _gain(times: float, short: CaseState, long: CaseState) -> str | None:
    """2.0 to 3.4 × the tokens a second: what both steps' intervals allow; None for too little.

    times: as many tokens a step. More than so many times the tokens a second no step has.
    """
    if short.total is None or long.total is None:
        return None
    if times * short.total.mean / long.total.mean < 1 + WORTH:
        return None
    if not (between_processes(short) and between_processes(long)):
        mean = times * short.total.mean / long.total.mean
        return f"about {mean:.1f} × the tokens a second by single processes"
    (least, most), (low, high) = (_ends(each.total) for each in (short, long) if each.total)
    fewest, greatest = (min(times, each) for each in (times * least / high, times * most / low))
    return f"{fewest:.1f} to {greatest:.1f} × the tokens a second by the intervals of both"


def _ends(of: Summary) -> tuple[float, float]:
    """The interval of a mean; nothing takes less than no time."""
    half = of.ci95 or 0.0
    return max(0.0, of.mean - half), of.mean + half


def _step_ms(tables: Tables, found: Found) -> Sentence:
    """103 ± 27 ms."""
    assert tables.steps is not None
    key = step_key(*found)
    known = tables.steps.known(key, "95 % interval")
    return tables.steps.told(key, "{Step} ± {95 % interval} ms" if known else "{Step} ms")


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
