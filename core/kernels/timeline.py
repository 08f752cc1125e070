"""The device over time: busy, idle, gaps and launches of each phase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprof.core.events.kernel_rows import (
    CLASSES,
    WHOLE_STEP,
    Launches,
    PhaseTimeline,
    TimelineVerdict,
)
from llmprof.core.kernels.attribution import Activities
from llmprof.core.kernels.columns import Bool, Int64, Kind
from llmprof.core.kernels.nesting import NONE, union

LAUNCH_BOUND_SHARE = 0.25  # of a step's wall time, waiting for launches
PARTLY = 0.08
_MS = 1e-6
_US = 1e-3


@dataclass(frozen=True, eq=False)
class Gaps:
    """Idle stretches of one step within its window, nanoseconds."""

    start: Int64
    end: Int64
    waiting: Bool  # the next activity had not been launched when the gap began

    @property
    def length(self) -> Int64:
        """Duration of each."""
        return self.end - self.start


def timeline(activities: Activities, classes: Int64) -> tuple[PhaseTimeline, ...]:
    """The whole step first, then each phase: means over the steps."""
    steps = activities.windows.steps
    if not steps:
        return ()
    whole = [(step, *activities.windows.step_spans[step].tolist()) for step in range(steps)]
    parts = [_span(activities, classes, WHOLE_STEP, None, whole)]
    slots = _slots(activities)
    for position, phase in enumerate(activities.windows.phases):
        spans = [
            (step, *_device_span(activities, slots, step, slot))
            for step in range(steps)
            for slot, name in enumerate(activities.windows.sequence)
            if name == phase
        ]
        parts.append(_span(activities, classes, phase, position, spans))
    return tuple(parts)


def launch_counts(activities: Activities) -> tuple[Launches, ...]:
    """Launches and kernels of each phase in each step."""
    steps, kernels = activities.windows.steps, activities.kind == Kind.KERNEL
    return tuple(
        Launches(
            phase=phase,
            launches=_per_step(activities.launch_step[activities.launch_phase == at], steps),
            kernels=_per_step(activities.step[kernels & (activities.phase == at)], steps),
        )
        for at, phase in enumerate(activities.windows.phases)
    )


def timeline_verdict(step: PhaseTimeline) -> TimelineVerdict:
    """Whether the device waits for the host: by the share of a step's wall time spent so.

    The limits are a convention: below 8 % a faster host would gain next to nothing, above 25 %
    it is the first thing to look at.
    """
    if step.wall_ms <= 0:
        return "n/a"
    share = step.waiting_ms / step.wall_ms
    if share >= LAUNCH_BOUND_SHARE:
        return "launch-bound"
    return "partly launch-bound" if share >= PARTLY else "GPU-bound"


def find_gaps(activities: Activities, begin: int, end: int) -> Gaps:
    """Idle stretches between begin and end, the first from begin to the first activity."""
    rows = np.flatnonzero((activities.end > begin) & (activities.start < end))
    starts, ends = union(activities.start[rows], activities.end[rows])
    left = np.concatenate([[begin], np.minimum(ends, end)])
    right = np.concatenate([np.maximum(starts, begin), [end]])
    idle = right > left
    after = np.searchsorted(activities.start, right)  # the activity that ended the gap
    launched = np.full(len(right), np.iinfo(np.int64).min)
    known = (after < len(activities)) & (right < end)
    launch = np.full(len(right), NONE)
    launch[known] = activities.launch[after[known]]
    found = launch >= 0
    launched[found] = activities.columns.start[launch[found]]
    return Gaps(left[idle], right[idle], (launched > left)[idle])


def _slots(activities: Activities) -> Int64:
    """Which of a step's phases each activity belongs to, as the step went through them; -1: none.

    By its launch, or the op that made it, or itself, as its phase is found.
    """
    when = activities.start.copy()
    by_op = activities.op >= 0
    when[by_op] = activities.columns.start[activities.tree.rows[activities.op[by_op]]]
    launched = activities.launch >= 0
    when[launched] = activities.columns.start[activities.launch[launched]]
    return activities.windows.slot_of(when)


def _device_span(activities: Activities, slots: Int64, step: int, slot: int) -> tuple[int, int]:
    """From the device's last work of a step's earlier phases to its last work of this one."""
    mine = activities.step == step
    earlier = mine & (slots < slot) & (slots >= 0)
    own = mine & (slots == slot)
    begin = int(activities.end[earlier].max(initial=activities.windows.phase_spans[step, 0, 0]))
    if activities.source == "cpu":  # the host is the device: its own edges
        first, last = activities.windows.phase_spans[step, slot].tolist()
        return first, last
    return begin, int(activities.end[own].max(initial=begin))


def _span(
    activities: Activities,
    classes: Int64,
    name: str,
    phase: int | None,
    spans: list[tuple[int, int, int]],
) -> PhaseTimeline:
    n = activities.windows.steps
    mine = np.ones(len(activities), np.bool_) if phase is None else activities.phase == phase
    gaps = [find_gaps(activities, begin, end) for _, begin, end in spans]
    lengths = np.concatenate([gap.length for gap in gaps])
    waiting = sum(int(gap.length[gap.waiting].sum()) for gap in gaps)
    wall = sum(end - begin for _, begin, end in spans)
    kind, busy = activities.kind, activities.busy
    copies = _copies(activities)
    gemm = mine & (classes == CLASSES.index("GEMM"))
    return PhaseTimeline(
        phase=name,
        wall_ms=wall / n * _MS,
        busy_ms=(wall - int(lengths.sum())) / n * _MS,
        work_ms=_sum(busy, mine) / n * _MS,
        kernels_ms=_sum(busy, mine & _compute(activities)) / n * _MS,
        memory_ops_ms=_sum(busy, mine & ((kind == Kind.MEMSET) | copies["device"])) / n * _MS,
        to_device_ms=_sum(busy, mine & copies["to device"]) / n * _MS,
        to_host_ms=_sum(busy, mine & copies["to host"]) / n * _MS,
        gemm_ms=_sum(busy, gemm) / n * _MS,
        gemm_busy_ms=_covered(activities, gemm) / n * _MS,
        waiting_ms=waiting / n * _MS,
        gaps=len(lengths) / n,
        gap_median_us=float(np.median(lengths)) * _US if len(lengths) else None,
        gap_max_us=float(lengths.max()) * _US if len(lengths) else None,
        **_launching(activities, phase, n),
    )


def _launching(activities: Activities, phase: int | None, n: int) -> dict[str, float | None]:
    """Number of launches a step, how long the calls last and what lies between them."""
    if activities.source == "cpu":
        return {}
    chosen = (
        np.ones(len(activities.launches), np.bool_)
        if phase is None
        else activities.launch_phase == phase
    )
    calls, steps = activities.launches[chosen], activities.launch_step[chosen]
    durations = activities.columns.duration[calls]
    between = activities.columns.start[calls][1:] - activities.columns.end[calls][:-1]
    between = np.maximum(between[steps[1:] == steps[:-1]], 0)
    return {
        "launches": len(calls) / n,
        "launch_median_us": float(np.median(durations)) * _US if len(calls) else None,
        "launch_gap_median_us": float(np.median(between)) * _US if len(between) else None,
    }


def _copies(activities: Activities) -> dict[str, Bool]:
    """Which activities are copies, by direction: CUPTI names them Memcpy HtoD and so on."""
    names = activities.columns.names
    memcpy = activities.kind == Kind.MEMCPY
    up = np.array(["HtoD" in name for name in names], np.bool_)[activities.name]
    down = np.array(["DtoH" in name for name in names], np.bool_)[activities.name]
    return {
        "to device": memcpy & up,
        "to host": memcpy & down,
        "device": memcpy & ~up & ~down,
    }


def _compute(activities: Activities) -> Bool:
    computing = Kind.OP if activities.source == "cpu" else Kind.KERNEL
    found: Bool = activities.kind == computing
    return found


def _covered(activities: Activities, where: Bool) -> int:
    """Time in which at least one of these ran; of CPU ops their self time."""
    if activities.source == "cpu":
        return _sum(activities.busy, where)
    starts, ends = union(activities.start[where], activities.end[where])
    return int((ends - starts).sum())


def _sum(values: Int64, where: Bool) -> int:
    return int(values[where].sum())


def _per_step(steps: Int64 | np.ndarray[tuple[int], np.dtype[np.int16]], n: int) -> tuple[int, ...]:
    return tuple(np.bincount(steps.astype(np.int64), minlength=n)[:n].tolist())
