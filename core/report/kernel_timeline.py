"""The device over a profiled step, and what the profiler itself cost."""

from __future__ import annotations

import msgspec

from llmprof.core.kernels.rows import PhaseTimeline
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.results import CaseState, RunView
from llmprof.core.spec import Case, Phase


def timeline_table(view: RunView) -> Table | None:
    """M21, M22: what the GPU did, as shares of its busy time and of wall time."""
    rows: list[tuple[Cell, ...]] = []
    notes = []
    for state in view.cases:
        if state.timeline is None:
            continue
        rows += [_share_cells(state, part) for part in state.timeline.parts]
        notes += _notes(state, twin(view, state))
    columns = (
        Column("Case", numeric=False),
        Column("Part", numeric=False),
        Column("Wall", "ms"),
        Column("Busy", "ms"),
        Column("Busy of wall", "%"),
        Column("Compute of busy", "%"),
        Column("Memory ops of busy", "%"),
        Column("Host to device of busy", "%"),
        Column("Device to host of busy", "%"),
        Column("GEMM of busy", "%"),
        Column("GEMM of wall", "%"),
    )
    title = "Timeline of one step"
    return Table("M21", title, columns, tuple(rows), tuple(notes)) if rows else None


def launch_table(view: RunView) -> Table | None:
    """M24: idle time, gaps on the GPU and between launches on the CPU, launches and kernels."""
    rows = [
        _launch_cells(state, part)
        for state in view.cases
        if state.timeline is not None and state.timeline.source == "cuda"
        for part in state.timeline.parts
    ]
    columns = (
        Column("Case", numeric=False),
        Column("Part", numeric=False),
        Column("Idle", "ms"),
        Column("Waiting for launches", "ms"),
        Column("Gaps", "per step"),
        Column("Median gap", "µs"),
        Column("Longest gap", "µs"),
        Column("Launches", "per step"),
        Column("Launch call", "µs"),
        Column("Between launches", "µs"),
    )
    notes = (
        "Idle waits for a launch where the next kernel had not been launched when the gap began."
        " Launch call and the time between two of them are medians on the CPU.",
    )
    return Table("M24", "Gaps and launches", columns, tuple(rows), notes) if rows else None


def overhead_table(view: RunView) -> Table | None:
    """M19: each phase with and without the kernel profiler, in processes of their own."""
    rows: list[tuple[Cell, ...]] = []
    for state in view.cases:
        plain = twin(view, state) if state.case.probe == "kernels" else None
        if plain is None or not len(state.measured) or not len(plain.measured):
            continue
        rows += [
            _overhead(state.case.label, phase, _mean(plain, phase), _mean(state, phase))
            for phase in state.case.phases
        ]
        walls = [None if s.wall is None else s.wall.mean for s in (plain, state)]
        rows.append(_overhead(state.case.label, "wall", *walls))
    columns = (
        Column("Case", numeric=False),
        Column("Phase", numeric=False),
        Column("Plain", "ms"),
        Column("Profiled", "ms"),
        Column("Overhead", "%"),
    )
    notes = ("Means; the plain steps ran in a process that never had a profiler on.",)
    title = "Overhead of the kernel profiler"
    return Table("M19", title, columns, tuple(rows), notes) if rows else None


def twin(view: RunView, state: CaseState) -> CaseState | None:
    """The timing case of the same configuration, None when the run has none."""
    wanted = _configuration(state.case)
    return next(
        (
            other
            for other in view.cases
            if other.case.probe == "timing" and _configuration(other.case) == wanted
        ),
        None,
    )


def _configuration(case: Case) -> Case:
    return msgspec.structs.replace(
        case,
        probe="timing",
        measure_steps=1,
        target_percent=None,
        interleaved=False,
        stacks=False,
        trace=False,
        nvtx=False,
    )


def _share_cells(state: CaseState, part: PhaseTimeline) -> tuple[Cell, ...]:
    work, wall = part.work_ms, part.wall_ms
    return (
        state.case.label,
        part.phase,
        part.wall_ms,
        part.busy_ms,
        _percent(part.busy_ms, wall),
        _percent(part.kernels_ms, work),
        _percent(part.memory_ops_ms, work),
        _percent(part.to_device_ms, work),
        _percent(part.to_host_ms, work),
        _percent(part.gemm_ms, work),
        _percent(part.gemm_ms, wall),
    )


def _launch_cells(state: CaseState, part: PhaseTimeline) -> tuple[Cell, ...]:
    return (
        state.case.label,
        part.phase,
        part.idle_ms,
        part.waiting_ms,
        Figure(part.gaps, 1.0),
        part.gap_median_us,
        part.gap_max_us,
        Figure(part.launches, 1.0),
        part.launch_median_us,
        part.launch_gap_median_us,
    )


def _notes(state: CaseState, plain: CaseState | None) -> list[str]:
    assert state.timeline is not None
    facts, label = state.timeline, state.case.label
    if facts.source == "cpu":
        return [f"{label}: no card; busy is the time within CPU ops, idle is Python between them."]
    step = facts.parts[0]
    share = 100 * step.waiting_ms / step.wall_ms if step.wall_ms else 0.0
    notes = [
        f"{label}: {facts.verdict}: the GPU waited for launches {share:.0f} % of the profiled"
        " step, which the profiler makes longer."
    ]
    if plain is not None and plain.wall is not None and plain.wall.mean > 0:
        busy = 100 * step.busy_ms / plain.wall.mean
        gemm = 100 * step.gemm_ms / plain.wall.mean
        notes.append(
            f"{label}: against the plain step of {plain.wall.mean:.2f} ms the GPU is busy"
            f" {busy:.0f} % of wall time, with GEMMs {gemm:.0f} %."
        )
    for launches in state.kernels.launches if state.kernels else ():
        if not launches.steady:
            counts = ", ".join(map(str, launches.launches))
            notes.append(f"{label}: {launches.phase} launched unequally over the steps: {counts}.")
    return notes


def _overhead(
    label: str, phase: str, plain: float | None, profiled: float | None
) -> tuple[Cell, ...]:
    known = plain is not None and profiled is not None and plain > 0
    more = 100 * (profiled / plain - 1) if known and plain and profiled is not None else None
    return (label, phase, plain, profiled, Figure(more, 1.0))


def _mean(state: CaseState, phase: Phase) -> float | None:
    summary = state.summaries.get(phase)
    return None if summary is None else summary.mean


def _percent(part: float, whole: float) -> Figure:
    return Figure(100 * part / whole if whole > 0 else None, 0.1)
