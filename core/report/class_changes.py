"""Time by class of kernel in two profiles of the same steps, and what of a change it explains."""

from __future__ import annotations

import math

from llmprof.core.report.sentences import listing
from llmprof.core.state.view import CaseState
from llmprof.core.stats.ratio import SMALLEST_CHANGE
from llmprof.core.system.numbers import format_number

EXPLAINS = 0.8  # of a phase's change: classes that together make up so much explain it

ByClass = dict[tuple[str, str], float]  # milliseconds of one step by phase and class


def by_class(state: CaseState) -> ByClass:
    """A profiled case's device time; empty for one without a profile."""
    table = state.kernels
    if table is None:
        return {}
    found: ByClass = {}
    for row in table.classes:
        key = row.phase, row.label
        found[key] = found.get(key, 0.0) + row.total_ms / table.steps
    return found


def explanation(phase: str, before: ByClass, after: ByClass, *, faster: bool) -> str:
    """backward in the kernel profiles: GEMM +12 % (+3.10 of +3.30 ms), the rest together +5 %.

    "" where the profiles say nothing of the phase or contradict its change.
    """
    labels = {label for at, label in (*before, *after) if at == phase}
    moved = {x: after.get((phase, x), 0.0) - before.get((phase, x), 0.0) for x in labels}
    whole = math.fsum(moved.values())
    if not whole or (whole < 0) is not faster:
        return ""
    named: list[str] = []
    for label in sorted(labels, key=lambda label: moved[label], reverse=not faster):
        named.append(label)
        if math.fsum(moved[each] for each in named) / whole >= EXPLAINS:
            break
    words = listing(
        f"{label} {_grown(before.get((phase, label), 0.0), moved[label])}"
        f"({_signed(moved[label])} of {_signed(whole)} ms)"
        for label in named
    )
    rest = labels - set(named)
    old = math.fsum(before.get((phase, label), 0.0) for label in rest)
    left = math.fsum(moved[label] for label in rest)
    return f"{phase} in the kernel profiles: {words}{_rest(old, left)}"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else '−'}{format_number(abs(value), 0.1 * abs(value) or None)}"


def _grown(before: float, moved: float) -> str:
    if before <= 0:
        return "new "
    change = 100 * moved / before
    return f"{'+' if change > 0 else '−'}{abs(change):.0f} % "


def _rest(before: float, moved: float) -> str:
    if before <= 0:
        return ""
    change = moved / before
    if abs(change) < SMALLEST_CHANGE:
        return ", the rest unchanged within 1 %"
    return f", the rest together {_grown(before, moved).strip()}"
