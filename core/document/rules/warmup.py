"""What no warm-up does to the mean, where the first step was cold."""

from __future__ import annotations

import math
from collections.abc import Iterator

from llmprof.core.document.finding import Finding
from llmprof.core.document.sources import Source
from llmprof.core.document.tables import Tables
from llmprof.core.document.warmups import cold_told, warmup_key
from llmprof.core.report.warmup import COLD_FIRST_STEP, first_step_ms
from llmprof.core.state.view import CaseState


def without(tables: Tables) -> Iterator[Finding]:
    """The mean without warm-up beside that after the most of it."""
    table = tables.warmups
    for source, group in tables.warmup_cells if table else ():
        assert table is not None
        bare, longest = group[0], group[-1]
        first = first_step_ms(bare)
        if bare.case.warmup_steps or longest.total is None or first is None:
            continue
        cold = first / longest.total.median
        if cold > COLD_FIRST_STEP and _usable(source, bare, longest):
            text = table.told(
                warmup_key(source, bare),
                "Without warm-up the mean of {Size}, {Mode}, is {Mean} ms, {warm}: the process's "
                "first step took {First step} ms{cold}, and the median without warm-up is "
                "{Median} ms.",
                cold=cold_told(table, source, group),
                warm=table.told(
                    warmup_key(source, longest), "after {Warm-up} steps of it {Mean} ms"
                ),
            )
            yield Finding("warm-up", text, 0.1 * math.log(cold) + 0.2)


def _usable(source: Source, *states: CaseState) -> bool:
    """Whether no other check than that on warm-up says no."""
    return not any(set(source.failed_checks(state)) - {"warming"} for state in states)
