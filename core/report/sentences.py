"""Words for a run's own numbers; every sentence names the case that its figures come from."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.figures.replicates import processes_of
from llmprof.core.lint.verdict import Context, waits_for_host
from llmprof.core.report.table import format_number
from llmprof.core.state.view import CaseState
from llmprof.core.stats.summary import Summary
from llmprof.core.system.units import GIB, MIB


def ref(*states: CaseState) -> str:
    """(case 3) or (cases 3, 7): numbers as in the coverage table and the order of the exports."""
    indices = [each.index + 1 for state in states for each in processes_of(state)]
    return f"({'case' if len(indices) == 1 else 'cases'} {', '.join(map(str, indices))})"


def ms(summary: Summary) -> str:
    """A mean with the digits that its interval allows, and the unit."""
    return f"{format_number(summary.mean, summary.ci95)} ms"


def mib(count: float) -> str:
    """Bytes as MiB or GiB."""
    if count >= GIB:
        return f"{format_number(count / GIB, 0.1)} GiB"
    return f"{format_number(count / MIB, 10.0)} MiB"


def listing(items: Iterable[str]) -> str:
    """a, b and c."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def is_launch_bound(state: CaseState) -> bool:
    """Whether a card waited for the host in most of a case's steps."""
    return waits_for_host(state, Context(state.environment))


def why_not(states: Iterable[CaseState]) -> list[str]:
    """One sentence a case that has no figures though it was tried or refused."""
    return [
        f"{state.case.label}: {reason(state)} {ref(state)}."
        for state in states
        if state.failure is not None
    ]


def reason(state: CaseState) -> str:
    """Why a case has no figures."""
    failure = state.failure
    if failure is None:
        return "not measured"
    where = f" in {failure.phase}" if failure.phase else ""
    if state.status == "oom":
        asked = "" if failure.bytes_asked is None else f", {mib(failure.bytes_asked)} asked"
        return f"out of memory{where}{' (predicted)' if failure.predicted else ''}{asked}"
    if state.status in ("unsupported", "skipped"):
        return failure.message
    return f"{state.status}{where}: {failure.message}"


def peak_bytes(state: CaseState) -> int | None:
    """Peak memory of one step."""
    return None if state.memory is None else state.memory.peak_bytes
