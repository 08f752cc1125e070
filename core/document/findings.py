"""What may be said of the runs: from decisions and counted levels, every number a cell.

A difference is a finding only where it is told from equal between processes. A cause is named
only where a second measurement names it too; else the sentence says "consistent with". Cells to
which a check says no support nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from llmprof.core.document.commands import SWITCHES
from llmprof.core.document.finding import Finding, Kind
from llmprof.core.document.rules import (
    changes,
    growth,
    memory,
    pace,
    predicted,
    shares,
    unjudged,
    warmup,
    wrong_results,
)
from llmprof.core.document.tables import Tables

RULES: tuple[Callable[[Tables], Iterable[Finding]], ...] = (
    wrong_results.attention,
    changes.switched,
    unjudged.large,
    pace.launch_bound,
    pace.memory_bound,
    memory.peaks,
    memory.does_not_fit,
    growth.with_context,
    shares.of_the_peak,
    shares.of_products,
    warmup.without,
    predicted.peaks,
)
MOST = 7
MOST_OF_KIND: dict[Kind, int] = {"change": 4, "memory": 2}  # of other kinds one
NOT_JUDGED = (
    ("process", "cells were measured in one process, whose steps say nothing of what another would "
     "measure (`--processes 3` judges them)"),
    ("failed check", "a check says no to cells that it would rest on"),
    ("the host was", "the host's pace differed between cells"),
)  # fmt: skip


def findings(tables: Tables) -> list[Finding]:
    """At most seven, the weightiest first, those of attention alone after those of whole steps."""
    found = [finding for rule in RULES for finding in rule(tables)]
    kept: list[Finding] = []
    for each in sorted(found, key=lambda finding: (finding.alone, -finding.weight)):
        if sum(other.kind == each.kind for other in kept) < MOST_OF_KIND.get(each.kind, 1):
            kept.append(each)
    return kept[:MOST]


def why_no_change(tables: Tables) -> str:
    """What is said where no difference between cells holds; "" where one does."""
    if any(finding.kind == "change" for finding in findings(tables)):
        return ""
    if not tables.all_changes:
        return (
            "No two timed cells differ in a switch alone, so no difference of time is judged; "
            f"`{SWITCHES}` measures such."
        )
    reasons = {change.why_not for change in tables.all_changes}
    if "" in reasons:
        return "No switch is told from its baseline."
    why = [said for word, said in NOT_JUDGED if any(word in reason for reason in reasons)]
    return f"No difference between cells is judged: {'; '.join(why)}."


def evidence_rows(found: Iterable[Finding]) -> dict[str, list[Hashable]]:
    """Rows that findings rest on, by table: these are shown first."""
    rows: dict[str, list[Hashable]] = {}
    for finding in found:
        for quote in finding.evidence:
            rows.setdefault(quote.table, []).append(quote.row)
    return rows
