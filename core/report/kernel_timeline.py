"""The device over a profiled step, beside the plain one."""

from __future__ import annotations

from llmprof.core.events.kernel_rows import WHOLE_STEP, Launches, PhaseTimeline
from llmprof.core.figures.profile_wholes import mean_phase, mean_wall, twin, work_word
from llmprof.core.report.kernel_shares import share_cell
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.numbers import format_number

WALLS = (
    "Plain wall is the mean of the timing of the same case, which ran without a profiler, by the"
    " host's clock; profiled times are the profiler's own timestamps, which differ a little from"
    " the host's. Every share is of the row's own part of the profiled step."
)
GPU_SHARES = (
    "GPU time is the sum over kernels and copies, GPU-busy the time in which at least one ran."
)


def timeline_table(view: RunView) -> Table | None:
    """M21, M22: what the device did in a profiled step, beside the plain step's wall time."""
    profiled = [state for state in view.cases if state.timeline is not None]
    on_card = any(state.timeline and state.timeline.source == "cuda" for state in profiled)
    rows: list[tuple[Cell, ...]] = []
    notes = [WALLS, GPU_SHARES] if on_card else [WALLS]
    for state in profiled:
        assert state.timeline is not None
        plain = twin(view, state)
        rows += [
            _share_cells(state, plain, part, on_card=on_card)
            for part in state.timeline.parts
            if state.has_part(part.phase)
        ]
        notes += _notes(state, plain)
    title = "Timeline of one profiled step"
    columns = _share_columns(on_card)
    return (
        Table("timeline", title, columns, tuple(rows), tuple(notes), number="M21") if rows else None
    )


def launch_table(view: RunView) -> Table | None:
    """M24: idle time, gaps on the GPU and between launches on the CPU, launches and kernels."""
    rows = [
        _launch_cells(state, part)
        for state in view.cases
        if state.timeline is not None and state.timeline.source == "cuda"
        for part in state.timeline.parts
        if state.has_part(part.phase)
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
        "Means of the profiled steps, but for medians and for the longest gap, which are over all"
        " of them: it may be longer than the mean step idles. "
        "Idle: wall time without any kernel or copy. Waiting for launches: the part of it in which"
        " the next kernel had not been launched when the gap began. Launch call: how long the call"
        " that launches a kernel takes on the CPU, and Between launches the time from one to the"
        " next; both are medians.",
    )
    title = "Gaps and launches of one profiled step"
    return Table("launches", title, columns, tuple(rows), notes, number="M24") if rows else None


def _share_columns(on_card: bool) -> tuple[Column, ...]:
    work = work_word("cuda" if on_card else "cpu")
    copies = ("Memory ops", "Host to device", "Device to host") if on_card else ()
    return (
        Column("Case", numeric=False),
        Column("Part", numeric=False),
        Column("Plain wall", "ms"),
        Column("Profiled wall", "ms"),
        Column("GPU-busy" if on_card else "Within ops", "ms"),
        Column(f"{'Busy' if on_card else 'Ops'} of profiled wall", "%"),
        *((Column(f"Compute of {work}", "%"),) if on_card else ()),
        *(Column(f"{name} of {work}", "%") for name in copies),
        Column("GEMM of GPU-busy" if on_card else f"GEMM of {work}", "%"),
        Column("GEMM of profiled wall", "%"),
    )


def _share_cells(
    state: CaseState, plain: CaseState | None, part: PhaseTimeline, *, on_card: bool
) -> tuple[Cell, ...]:
    work, wall, gemm = part.work_ms, part.wall_ms, _gemm_busy(part)
    whole = part.phase == WHOLE_STEP
    parts = (part.kernels_ms, part.memory_ops_ms, part.to_device_ms, part.to_host_ms)
    return (
        state.case.label,
        part.phase,
        mean_wall(plain) if whole else mean_phase(plain, part.phase),
        part.wall_ms,
        part.busy_ms,
        share_cell(part.busy_ms, wall),
        *((share_cell(each, work) for each in parts) if on_card else ()),
        share_cell(gemm, part.busy_ms if on_card else work),
        share_cell(gemm, wall),
    )


def _launch_cells(state: CaseState, part: PhaseTimeline) -> tuple[Cell, ...]:
    return (
        state.case.label,
        part.phase,
        part.idle_ms,
        part.waiting_ms,
        _count(part.gaps),
        part.gap_median_us,
        part.gap_max_us,
        _count(part.launches),
        part.launch_median_us,
        part.launch_gap_median_us,
    )


def _count(mean: float | None) -> Cell:
    """A mean count of one step: whole unless the steps differed."""
    if mean is not None and mean.is_integer():
        return int(mean)
    return Figure(mean, 0.1)


def _notes(state: CaseState, plain: CaseState | None) -> list[str]:
    assert state.timeline is not None
    facts, label = state.timeline, state.case.label
    if facts.source == "cpu":
        return [f"{label}: no card; outside of ops is Python, with the profiler's own work."]
    step = facts.parts[0]
    share = 100 * step.waiting_ms / step.wall_ms if step.wall_ms else 0.0
    notes = [
        f"{label}: {facts.verdict} by the profiled wall: the GPU waited for launches {share:.0f} %"
        f" of the profiled step's {format_number(step.wall_ms)} ms, which the profiler makes"
        " longer."
    ]
    wall = mean_wall(plain)
    if wall:
        notes.append(_against_plain(label, step, wall))
    for launches in state.kernels.launches if state.kernels else ():
        if differing := uneven(launches):
            notes.append(f"{label}: {launches.phase} is not alike in every step: {differing}.")
    return notes


def _against_plain(label: str, step: PhaseTimeline, wall: float) -> str:
    if step.busy_ms > wall:
        return (
            f"{label}: the plain step of {format_number(wall)} ms is shorter than the time in which"
            f" the GPU was busy under the profiler, {format_number(step.busy_ms)} ms, so its idle"
            " time cannot be derived."
        )
    return (
        f"{label}: against the plain step of {format_number(wall)} ms the GPU is busy"
        f" {100 * step.busy_ms / wall:.0f} % of wall time, with GEMMs"
        f" {100 * _gemm_busy(step) / wall:.0f} %."
    )


def uneven(launches: Launches) -> str:
    """The counts that differ over the steps, as least to most; empty when none does."""
    counts = {"launches": launches.launches, "kernels": launches.kernels}
    return ", ".join(
        f"{min(each):,} to {max(each):,} {name}"
        for name, each in counts.items()
        if len(set(each)) > 1
    )


def _gemm_busy(part: PhaseTimeline) -> float:
    return part.gemm_ms if part.gemm_busy_ms is None else part.gemm_busy_ms
