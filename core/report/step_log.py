"""Every step of every case."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.figures.case_device import CaseDevice
from llmprof.core.report.sentences import mean_and_spread, mean_interval
from llmprof.core.report.subject import subject_of
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.spec.case import PHASES
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.summary import Summary
from llmprof.core.system.numbers import significant
from llmprof.core.system.text import counted


def step_logs(view: RunView) -> list[Table]:
    """M07: a table a case: each step, warm-up apart, then mean ± std and the mean's interval."""
    subject = subject_of(view)
    return [
        step_log(state, device)
        for state, device in zip(subject.cases, subject.devices, strict=True)
        if state.steps_done
    ]


def step_log(state: CaseState, device: CaseDevice) -> Table:
    """M07 of one case; device says during which steps the card was slowed or shared."""
    phases = state.case.phases
    marks = _marks(state.total, device)
    rows: list[tuple[Cell, ...]] = []
    for kind, steps in (("warm-up", state.warmup), ("measured", state.measured)):
        for position, step in enumerate(steps):
            times = [step.device_ms[PHASES.index(phase)] for phase in phases]
            rows.append(
                (
                    kind,
                    step.index + 1,
                    *(Figure(value) for value in times),
                    Figure(step.total_ms),
                    Figure(step.wall_ms),
                    marks.get(position, "") if kind == "measured" else "",
                )
            )
    columns = (
        Column("Kind", numeric=False),
        Column("Step"),
        *(Column(phase, "ms") for phase in phases),
        Column("total", "ms"),
        Column("wall", "ms"),
        Column("Mark", numeric=False),
    )
    notes = tuple(_lines(state))
    return Table(
        "step-log",
        f"Steps of {state.case.label}",
        columns,
        tuple(rows),
        notes,
        folded=True,
        number="M07",
    )


def _marks(total: Summary | None, device: CaseDevice) -> dict[int, str]:
    marks: dict[int, list[str]] = {}
    found: tuple[tuple[str, Iterable[int]], ...] = (
        ("outlier", total.mild if total else ()),
        ("severe outlier", total.severe if total else ()),
        ("throttled", device.throttled),
        ("shared card", device.shared),
    )
    for word, positions in found:
        for position in positions:
            marks.setdefault(position, []).append(word)
    return {position: ", ".join(words) for position, words in marks.items()}


def _lines(state: CaseState) -> list[str]:
    lines = []
    for name, summary in [*state.summaries.items(), ("total", state.total)]:
        if summary is None or summary.n < 2:
            continue
        if not summary.std:
            alike = f"{mean_and_spread(summary)} ms in each of {counted(summary.n, 'step')}"
            lines.append(f"{name}: {alike}.")
            continue
        cv = "" if summary.cv_percent is None else f", CV {summary.cv_percent:.1f} %"
        lines.append(
            f"{name}: {mean_and_spread(summary)} ms{cv}; 95 % interval of the mean "
            f"{mean_interval(summary)} ms, n = {summary.n}."
        )
    if lines:
        lines.insert(0, "Mean ± standard deviation (ddof 1) over the measured steps:")
    forward, backward = state.summaries.get("forward"), state.summaries.get("backward")
    if forward is not None and backward is not None:
        lines.append(
            f"Backward takes {significant(backward.mean / forward.mean)} × the time of forward."
        )
    return lines
