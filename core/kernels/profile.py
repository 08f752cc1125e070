"""One profile summed up: events for the journal."""

from __future__ import annotations

import numpy as np

from llmprof.core import events as ev
from llmprof.core.events.kernel_rows import CLASSES, Coverage, StripInfo
from llmprof.core.kernels import tables
from llmprof.core.kernels.attention_lens import lens_rows
from llmprof.core.kernels.attribution import Activities
from llmprof.core.kernels.columns import Bool, Int64
from llmprof.core.kernels.gemm_counts import gemm_counts
from llmprof.core.kernels.timeline import launch_counts, timeline, timeline_verdict
from llmprof.core.spec.case import Case

LEAST_COVERAGE = 99.0  # percent of launches with a kernel, below which totals are refused
NO_KERNELS = (
    "another profiler may hold CUPTI (Nsight, DCGM, a second llmprof), the driver may keep"
    " profiling to administrators (NVreg_RestrictProfilingToAdminUsers=1), or the container"
    " may lack the right; the timing of the same case needs none of this"
)


class ProfileError(Exception):
    """A profile whose figures would be wrong; its text says what happened and why."""


def check_complete(activities: Activities, launches_seen: int, activities_seen: int) -> None:
    """Refuse a profile that lacks what ran. Raises ProfileError.

    The counts are of the whole session, so that an empty one is told from one that is cut.
    """
    if not activities.windows.steps:
        raise ProfileError("the profiler recorded no step of this case")
    if activities.source == "cpu":
        return
    if not activities_seen:
        found = f"{launches_seen:,} kernel launches and no kernel" if launches_seen else "nothing"
        raise ProfileError(f"the profiler recorded {found} from the card: {NO_KERNELS}")
    launches = len(activities.launches)
    if launches and 100 * (1 - activities.barren / launches) < LEAST_COVERAGE:
        raise ProfileError(
            f"{activities.barren:,} of {launches:,} kernel launches left no kernel in the"
            " profile: CUPTI dropped records (its buffers were full, or another profiler"
            " listened); fewer profiled steps may help"
        )
    if not len(activities):
        raise ProfileError("the card ran nothing in the profiled steps")


def kernel_table(
    activities: Activities,
    classes: Int64,
    *,
    index: int,
    case: Case,
    notes: tuple[str, ...] = (),
    missing: tuple[str, ...] = (),
) -> ev.KernelTable:
    """Kernels, classes, ops, modules, GEMMs and coverage of a profile."""
    names, tree = activities.columns.names, activities.tree
    return ev.KernelTable(
        case=index,
        source=activities.source,
        steps=activities.windows.steps,
        rows=tables.kernel_rows(activities, classes),
        classes=tables.share_rows(activities, classes, CLASSES),
        ops=tables.share_rows(activities, activities.op_name, names),
        modules=tables.share_rows(activities, activities.of_op(tree.place), tree.places),
        gemms=gemm_counts(activities, case),
        launches=launch_counts(activities) if activities.source == "cuda" else (),
        coverage=attribution_coverage(activities, ranges=case.compile is None),
        recompute_ms=recompute_ms(activities, case),
        notes=notes,
        missing=missing,
    )


def recompute_ms(activities: Activities, case: Case) -> float | None:
    """Busy time of what a step's backward ran again, mean over the steps; None: no such ranges."""
    if case.blocks_a_checkpoint is None or case.compile is not None or not activities.windows.steps:
        return None
    again = activities.of_op(activities.tree.recomputed.astype(np.int64)) == 1
    return int(activities.busy[again].sum()) / activities.windows.steps / 1e6


def timeline_facts(
    activities: Activities, classes: Int64, *, index: int, strip: StripInfo | None
) -> ev.TimelineFacts:
    """Timeline of the step and its phases; the strip is where one step's lies."""
    parts = timeline(activities, classes)
    return ev.TimelineFacts(
        case=index,
        source=activities.source,
        parts=parts,
        verdict="n/a" if activities.source == "cpu" else timeline_verdict(parts[0]),
        strip=strip,
    )


def attention_lens(
    activities: Activities, *, index: int, case: Case, layer: int
) -> ev.AttentionLens | None:
    """The marked layer's attention, None when no layer was marked."""
    rows = lens_rows(activities, case)
    if not rows:
        return None
    return ev.AttentionLens(case=index, source=activities.source, layer=layer, rows=rows)


def attribution_coverage(activities: Activities, *, ranges: bool = True) -> Coverage:
    """How much of the activities' time has a phase, an op and a module.

    The loss, the optimizer and gradient accumulation count as modules; a backward without a
    forward op does not. Without module ranges, as in a compiled model, the shares of modules
    are None.
    """
    place, places = activities.of_op(activities.tree.place), activities.tree.places
    vague = np.array([place in ("(backward)", "(forward)") for place in places], np.bool_)
    placed = (place >= 0) & ~(vague[np.maximum(place, 0)] if len(vague) else place >= 0)
    backward = activities.phase == _position(activities.windows.phases, "backward")
    return Coverage(
        activities=len(activities),
        launches=len(activities.launches),
        launches_without_kernel=activities.barren,
        to_phase=_share(activities, activities.phase >= 0),
        to_op=_share(activities, activities.op_name >= 0),
        to_module=_share(activities, placed) if ranges else None,
        backward_to_module=_share(activities, placed, backward) if ranges else None,
        outside_steps=activities.outside,
    )


def _share(activities: Activities, having: Bool, among: Bool | None = None) -> float | None:
    among = np.ones(len(activities), np.bool_) if among is None else among
    total = int(activities.busy[among].sum())
    return 100 * int(activities.busy[among & having].sum()) / total if total else None


def _position(phases: tuple[str, ...], phase: str) -> int:
    return phases.index(phase) if phase in phases else len(phases)
