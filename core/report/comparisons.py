"""Cases that are alike but for some fields: what a comparison may put side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from llmprof.core.report.case_groups import AXES
from llmprof.core.report.table import Column
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import TURN_STEPS
from llmprof.core.state.view import CaseState
from llmprof.core.stats.ratio import Ratio, paired_ratio, ratio

SWITCHES: dict[str, Any] = {
    "precision": "fp32",
    "attention": "naive",
    "optimizer": "foreach",
    "compile": None,
}


def grouped_alike(states: Iterable[CaseState], **neutral: Any) -> list[list[CaseState]]:
    """Cases in groups whose members differ in the named fields alone, in order.

    Each field is given a value that is valid for every case; all else must be equal.
    """
    found: dict[str, list[CaseState]] = {}
    for state in states:
        key = msgspec.structs.replace(state.case, **neutral).key
        found.setdefault(key, []).append(state)
    return list(found.values())


def axes_of(states: Iterable[CaseState], *without: str) -> list[tuple[str, Column]]:
    """The axes along which cases differ, less those that a table shows in its own way."""
    cases = [state.case for state in states]
    return [
        (name, column)
        for name, column in AXES
        if name not in without and len({getattr(case, name) for case in cases}) > 1
    ]


def compare(top: CaseState, bottom: CaseState) -> Ratio | None:
    """top's mean step over bottom's: turn by turn where both took turns, else by their means."""
    if top.case.interleaved and bottom.case.interleaved:
        series = top.measured.total_ms(), bottom.measured.total_ms()
        return paired_ratio(*series, TURN_STEPS) or ratio(top.total, bottom.total)
    return ratio(top.total, bottom.total)


def switch_name(case: Case, base: Case) -> str:
    """What a case switches on or off against another: bf16 + SDPA + torch.compile."""
    names = []
    if case.precision != base.precision:
        names.append({"tf32": "TF32"}.get(case.precision, case.precision))
    if case.attention != base.attention:
        names.append({"sdpa": "SDPA"}.get(case.attention, f"{case.attention} attention"))
    if case.optimizer != base.optimizer:
        names.append(f"{case.optimizer} AdamW")
    if case.compile != base.compile:
        mode = "" if case.compile in (None, "default") else f" ({case.compile})"
        names.append(f"torch.compile{mode}" if case.compile else "eager")
    return " + ".join(names) or "baseline"
