"""M07: every step of every case, and peak memory by phase."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.figures.case_device import CaseDevice, join_case
from llmprof.core.report.case_groups import axis_cells, varying_axes
from llmprof.core.report.table import Cell, Column, Figure, Table, format_cell
from llmprof.core.spec.case import PHASES
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.summary import Summary

MIB = 2**20


def step_logs(view: RunView) -> list[Table]:
    """M07: a table a case: each step, warm-up apart, then mean ± std (CV)."""
    return [step_log(state, join_case(view, state)) for state in view.cases if state.steps_done]


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
    return Table("M07", f"Steps of {state.case.label}", columns, tuple(rows), notes, folded=True)


def memory(view: RunView) -> Table | None:
    """Peak memory of one step, by phase, from a step that is not timed."""
    measured = [state for state in view.cases if state.memory is not None]
    if not measured:
        return None
    axes = varying_axes(view)
    rows: list[tuple[Cell, ...]] = []
    for state in measured:
        assert state.memory is not None
        peaks = {edge.phase: edge.peak_bytes for edge in state.memory.edges}
        start = next((e.allocated_bytes for e in state.memory.edges if e.phase == "start"), None)
        rows.append(
            (
                state.case.model.name,
                state.case.mode,
                *axis_cells(state.case, axes),
                _mib(start),
                *(_mib(peaks.get(phase)) for phase in PHASES),
                _mib(state.memory.peak_bytes),
            )
        )
    columns = (
        Column("Model Size", numeric=False),
        Column("Mode", numeric=False),
        *(column for _, column in axes),
        Column("before", "MiB"),
        *(Column(phase, "MiB") for phase in PHASES),
        Column("Peak", "MiB"),
    )
    source = measured[0].memory.source if measured[0].memory is not None else ""
    notes = [f"Highest level within each phase of one extra step ({source})."]
    if source == "process resident set":
        notes.append(
            "The resident set holds Python and torch too, and what an allocator keeps for later "
            "use doesn't show as a new need: on a CPU read these as upper bounds of the growth."
        )
    return Table("memory", "Peak memory", columns, tuple(rows), tuple(notes))


def _mib(count: int | None) -> Cell:
    return None if count is None else Figure(count / MIB, 1.0)


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
        cv = "" if summary.cv_percent is None else f" (CV {summary.cv_percent:.1f} %)"
        mean, std = Figure(summary.mean, summary.ci95), Figure(summary.std, summary.ci95)
        lines.append(f"{name}: {format_cell(mean)} ± {format_cell(std)} ms{cv}, n = {summary.n}.")
    forward, backward = state.summaries.get("forward"), state.summaries.get("backward")
    if forward is not None and backward is not None:
        lines.append(f"Backward is {backward.mean / forward.mean:.2f} × forward.")
    return lines
