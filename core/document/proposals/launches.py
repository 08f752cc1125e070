"""What helps where the host sets the pace: fewer launches, or more work in each."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from llmprof.core.document.commands import judged, profiling
from llmprof.core.document.configurations import work_of
from llmprof.core.document.next_step import (
    BATCH,
    COMBINED,
    OTHER,
    WORTH,
    NextStep,
    Target,
    card_floor,
    step_name,
)
from llmprof.core.document.paces import idle_profile, idle_quote, paces_of
from llmprof.core.document.profiles import idle_share
from llmprof.core.document.quotes import Sentence
from llmprof.core.document.steps import Found, step_key
from llmprof.core.document.tables import Tables
from llmprof.core.predict.advice import largest_batch
from llmprof.core.predict.as_event import room_here
from llmprof.core.report.sentences import is_launch_bound
from llmprof.core.spec.axes import NONE


def fewer(of: Target) -> Iterator[NextStep]:
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


def _compiled_as_well(of: Target, command: str) -> Iterator[NextStep]:
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
    card = card_floor(of, of.now.case)
    if card is None or is_launch_bound(of.state):
        command_of_idle = profiling(of.now.case)
        told = f"at most the card's idle time in it, which `{command_of_idle}` measures"
        yield NextStep(evidence, command, told, COMBINED)
        return
    expected, saved = of.at_most(card)
    if saved >= WORTH:
        yield NextStep(evidence, command, expected, COMBINED, saved)


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
    fits = f"batch {most:,} fits by prediction"
    longer = _of_more_tokens(tables, found)
    evidence: Sentence = ("The host sets the pace of ", *step_name(tables, found), ", ",
                          tables.steps.quote(step_key(*found), "Step"), " ms a step")  # fmt: skip
    if longer is None or longer[1].total is None:
        batch = min(most, 4 * state.case.batch_size)
        told = (f"up to {batch // state.case.batch_size} × the tokens a second while the host "
                f"sets the pace; {fits}")  # fmt: skip
    else:
        batch = min(most, longer[1].case.tokens // state.case.context_length)
        evidence = (*evidence, ", and ", *step_name(tables, longer), " takes ",
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
