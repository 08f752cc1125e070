"""What no warm-up does to the mean of a process, by its own first step and its later ones."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence

from llmprof.core.document.finding import Finding
from llmprof.core.document.quotes import KeyedTable, Sentence, joined, number
from llmprof.core.document.sources import Source
from llmprof.core.document.tables import Tables
from llmprof.core.document.warmups import warmup_key
from llmprof.core.report.warmup import (
    COLD_FIRST_STEP,
    TOLD,
    first_phases_ms,
    first_step_ms,
)
from llmprof.core.spec.case import Phase
from llmprof.core.state.view import CaseState
from llmprof.core.system.text import in_words


def without(tables: Tables) -> Iterator[Finding]:
    """The first step of a process that was not warmed up beside its own later ones."""
    table = tables.warmups
    for source, group in tables.warmup_cells if table else ():
        assert table is not None
        bare = group[0]
        first = first_step_ms(bare)
        if bare.case.warmup_steps or bare.total is None or first is None:
            continue
        cold = first / bare.total.median
        if cold > COLD_FIRST_STEP and _usable(source, bare):
            key = warmup_key(source, bare)
            phases = [each.capitalize() for each in _cold_phases(bare)]
            text = table.told(
                key,
                "The first {Mode} step of {Size} takes {first}. In the one without "
                "warm-up it takes {First step} ms{where}; the median of that process's steps is "
                "{Median} ms, and with the first one their mean {Mean} ms.",
                first=_first_of_all(table, source, group),
                where=_told(table, key, phases),
            )
            yield Finding("warm-up", text, 0.1 * math.log(cold) + 0.2)


def _first_of_all(table: KeyedTable, source: Source, processes: Sequence[CaseState]) -> Sentence:
    """356.1 to 466.5 ms in four processes, each of which began as cold as the others."""
    quotes = [table.quote(warmup_key(source, each), "First step") for each in processes]
    quotes = sorted((each for each in quotes if each.text), key=number)
    if len(quotes) == 1:
        return (quotes[0], " ms")
    return (quotes[0], " to ", quotes[-1], f" ms in {in_words(len(quotes))} processes")


def _told(table: KeyedTable, key: Hashable, phases: Sequence[str]) -> Sentence:
    """(cold: forward 213.4 ms, optimizer 61.12 ms)."""
    if not phases:
        return ()
    parts = (table.told(key, f"{each.lower()} {{First {each.lower()}}} ms") for each in phases)
    return (" (cold: ", *joined(parts), ")")


def _cold_phases(state: CaseState) -> tuple[Phase, ...]:
    """The phases that took much longer in the process's first step than in its own later ones."""
    first = first_phases_ms(state)
    return tuple(
        phase
        for phase in TOLD
        if (own := state.summaries.get(phase)) is not None
        and first.get(phase, 0.0) > COLD_FIRST_STEP * own.median
    )


def _usable(source: Source, state: CaseState) -> bool:
    """Whether no other check than that on warm-up says no."""
    return not set(source.failed_checks(state)) - {"warming"}
