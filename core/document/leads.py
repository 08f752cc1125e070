"""The largest change of single processes: none judges it, and it is too large to pass over."""

from __future__ import annotations

import math

from llmprof.core.document.changes import Change
from llmprof.core.document.commands import judged
from llmprof.core.document.repeats import Repeats, repeats_of
from llmprof.core.document.tables import Tables
from llmprof.core.figures.comparison import ONE_PROCESS
from llmprof.core.spec.axes import SWITCHES, Axis, apart

LEAST_PROCESSES = 4  # of the baseline, in all runs, to know how far apart it comes out
LEAST = math.log(1.25)
BEYOND = 2.0  # times the whole spread of the baseline, from the nearest of its processes


def largest_lead(tables: Tables) -> Change | None:
    """The largest change of single processes, if it is far beyond the spread of its baseline."""
    table = tables.changes
    found = [
        (_distance(change, around), change)
        for change in tables.all_changes
        if change.why_not == ONE_PROCESS and not change.of_attention
        and change.source.sound(change.found.base, change.found.other)
        and len(_apart(change)) == 1
        and (around := repeats_of(change.found.base, tables.sources)) is not None
        and _distance(change, around) >= max(LEAST, BEYOND * math.log(around.high / around.low))
    ]  # fmt: skip
    if table is None or not found:
        return None
    change = max(found, key=lambda each: each[0])[1]
    key = change.key(change.found.total)
    return change if table.known(key, "Baseline in all runs") else None


def axis_of(lead: Change) -> Axis:
    """What the two cases of a lead differ in."""
    return _apart(lead)[0]


def judging(lead: Change) -> str:
    """The command that measures both in processes that judge them."""
    axis, found = axis_of(lead), lead.found
    values = (axis.text(axis.of(state.case)) for state in (found.base, found.other))
    return judged(found.base.case, axis.field, *values)


def _apart(change: Change) -> list[Axis]:
    return list(apart(change.found.base.case, change.found.other.case, SWITCHES))


def _distance(change: Change, around: Repeats) -> float:
    """How far a step is from the nearest process of its baseline, as a logarithm of their ratio."""
    if len(around.processes) < LEAST_PROCESSES:
        return 0.0
    own = change.found.total.other.mean
    return max(math.log(around.low / own), math.log(own / around.high))
