"""A change too large to pass over though its cells are of one process, so that none judges it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from llmprof.core.document.changes import Change
from llmprof.core.document.commands import judged
from llmprof.core.document.configurations import work_of
from llmprof.core.document.finding import Finding
from llmprof.core.document.repeats import Repeats, repeats_of
from llmprof.core.document.tables import Tables
from llmprof.core.figures.comparison import ONE_PROCESS
from llmprof.core.spec.axes import SWITCHES, apart

LEAST_PROCESSES = 4  # of the baseline, in all runs, to know how far apart it comes out
LEAST = math.log(1.25)
BEYOND = 2.0  # times the whole spread of the baseline, from the nearest of its processes


def large(tables: Tables) -> Iterator[Finding]:
    """The largest change of single processes, if it is far beyond the spread of its baseline."""
    table = tables.changes
    found = [
        (change, around)
        for change in tables.all_changes
        if change.why_not == ONE_PROCESS and not change.of_attention
        and change.source.sound(change.found.base, change.found.other)
        and len(apart(change.found.base.case, change.found.other.case, SWITCHES)) == 1
        and (around := repeats_of(change.found.base, tables.sources)) is not None
        and _distance(change, around) >= max(LEAST, BEYOND * math.log(around.high / around.low))
    ]  # fmt: skip
    if table is None or not found:
        return
    change, around = max(found, key=lambda each: _distance(*each))
    key = change.key(change.found.total)
    if not table.known(key, "Baseline in all runs"):
        return
    (axis,) = apart(change.found.base.case, change.found.other.case, SWITCHES)
    command = judged(
        change.found.base.case,
        axis.field,
        *(axis.text(axis.of(state.case)) for state in (change.found.base, change.found.other)),
    )
    text = table.told(
        key,
        "{Switch}, in one process and so not judged: it takes the step of {Size} {work} from "
        "{Baseline} to {With it} ms, far from the {Baseline in all runs} ms that its baseline took "
        "in all runs; {command} judges it.",
        work=work_of(table, key),
        command=f"`{command}`",
    )
    yield Finding("unjudged", text, 0.45)


def _distance(change: Change, around: Repeats) -> float:
    """How far a step is from the nearest process of its baseline, as a logarithm of their ratio."""
    if len(around.processes) < LEAST_PROCESSES:
        return 0.0
    own = change.found.total.other.mean
    return max(math.log(around.low / own), math.log(own / around.high))
