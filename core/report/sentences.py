"""Words for a run's own numbers; every sentence names the case that its figures come from."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.events import SKIPPED
from llmprof.core.figures.replicates import processes_of
from llmprof.core.lint.verdict import Context, waits_for_host
from llmprof.core.state.view import CaseState
from llmprof.core.stats.summary import Summary
from llmprof.core.system.numbers import decimals, format_number, interval
from llmprof.core.system.text import counted
from llmprof.core.system.units import MIB


def ref(*states: CaseState) -> str:
    """(case 3) or (cases 3, 7): numbers as in the coverage table and the order of the exports."""
    indices = [each.index + 1 for state in states for each in processes_of(state)]
    return f"({_cases(len(indices))} {', '.join(map(str, indices))})"


def case_numbers(indices: Iterable[int]) -> str:
    """case 3, or cases 2, 5 to 9: numbers that follow each other are told by the first and last."""
    wanted = sorted({index + 1 for index in indices})
    runs: list[list[int]] = []
    for number in wanted:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    told: list[str] = []
    for run in runs:
        told += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    return f"{_cases(len(wanted))} {', '.join(told)}"


def _cases(count: int) -> str:
    return counted(count, "case").split()[1]


def mean_interval(summary: Summary) -> str:
    """54.4 to 64.6: the 95 % interval of a mean time, in its unit; nothing takes less than 0."""
    if summary.ci95 is None:
        return "n/a"
    return interval(max(0.0, summary.mean - summary.ci95), summary.mean + summary.ci95)


def mean_and_spread(summary: Summary) -> str:
    """59.5 ± 7.1: mean ± standard deviation; a mean alone where there is no spread."""
    if not summary.std:
        return format_number(summary.mean)
    places = decimals(summary.mean, summary.ci95)
    return f"{summary.mean:,.{places}f} ± {summary.std:,.{places}f}"


def what_spread_is(summaries: Iterable[Summary | None]) -> str:
    """What stands beside the means of a table, said in one sentence."""
    if any(each is not None and each.process_means for each in summaries):
        return (
            "Means over fresh processes, with the 95 % interval between them (Student's t) and the "
            "standard deviation (ddof 1) of the steps within one; digits follow the interval."
        )
    return (
        "Mean and standard deviation (ddof 1) over the measured steps, with the mean's 95 % "
        "interval (Student's t); digits follow the interval."
    )


def what_std_is(summaries: Iterable[Summary | None]) -> str:
    """What a standard deviation is of, said in one sentence."""
    several = any(each is not None and each.process_means for each in summaries)
    within = " within a process" if several else ""
    return f"Std Dev: standard deviation (ddof 1) of the measured steps{within}."


def ms(summary: Summary) -> str:
    """A mean with the digits that its interval allows, and the unit."""
    return f"{format_number(summary.mean, summary.ci95)} ms"


def mib(count: float) -> str:
    """Bytes in MiB, the unit of the tables' memory columns."""
    return f"{format_number(count / MIB, 10.0)} MiB"


def listing(items: Iterable[str]) -> str:
    """a, b and c."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def is_launch_bound(state: CaseState) -> bool:
    """Whether a card waited for the host in most of a case's steps."""
    return waits_for_host(state, Context(state.environment))


def why_not(states: Iterable[CaseState]) -> list[str]:
    """One sentence a case that has no figures, or not all, though it was tried or refused."""
    return [
        f"{state.case.label}: {reason(state)}{_in_part(state)} {ref(state)}."
        for state in states
        if state.failure is not None
    ]


def _in_part(state: CaseState) -> str:
    """What the figures of a case are of that was cut off."""
    if state.total is None:
        return ""
    return f"; its figures are of {counted(state.total.n, 'step')}"


def reason(state: CaseState) -> str:
    """Why a case has no figures."""
    failure = state.failure
    if failure is None:
        return "not measured"
    where = f" in {failure.phase}" if failure.phase else ""
    if state.status == "oom":
        asked = "" if failure.bytes_asked is None else f", {mib(failure.bytes_asked)} asked"
        return f"out of memory{where}{' (predicted)' if failure.predicted else ''}{asked}"
    if state.status in ("unsupported", SKIPPED):
        return failure.message
    return f"{state.status}{where}: {failure.message}"


def peak_bytes(state: CaseState) -> int | None:
    """Peak memory of one step: allocated bytes on a card, the resident set on a CPU."""
    return None if state.memory is None else state.memory.peak_bytes


def forward_peak(state: CaseState) -> int | None:
    """Highest level within the forward of the same step."""
    edges = () if state.memory is None else state.memory.edges
    return next((edge.peak_bytes for edge in edges if edge.phase == "forward"), None)
