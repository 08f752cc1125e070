"""What the kernel profile of a case found; the rows are in kernel_rows.py beside this file."""

from __future__ import annotations

from typing import Annotated

import msgspec

from llmprof.core.events import kernel_rows as kernels
from llmprof.core.events.base import Event


class KernelTable(Event, frozen=True, kw_only=True):
    """Where a profiled case's time went; times are sums over its profiled steps.

    It is sent as soon as it is known, and once more for each part that is added to it.
    """

    case: int
    source: kernels.ProfileSource  # "cuda": kernels and copies; "cpu": ops, by self time
    steps: kernels.Count
    rows: tuple[kernels.KernelRow, ...]
    classes: tuple[kernels.ShareRow, ...]
    ops: tuple[kernels.ShareRow, ...]
    modules: tuple[kernels.ShareRow, ...]
    gemms: tuple[kernels.GemmCount, ...]
    launches: tuple[kernels.Launches, ...]  # empty on the CPU
    coverage: kernels.Coverage
    recompute_ms: float | None = None  # a step's backward ran again; None without checkpoints
    trace: str | None = None  # Chrome trace in the run's artifacts
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # what belongs to it or was asked for, and why it is not there


class TimelineFacts(Event, frozen=True, kw_only=True):
    """Busy, idle and launches of a profiled case; parts begin with the whole step."""

    case: int
    source: kernels.ProfileSource
    parts: Annotated[tuple[kernels.PhaseTimeline, ...], msgspec.Meta(min_length=1)]
    verdict: kernels.TimelineVerdict
    strip: kernels.StripInfo | None = None


class AttentionLens(Event, frozen=True, kw_only=True):
    """The attention of one layer, stage by stage."""

    case: int
    source: kernels.ProfileSource
    layer: int  # from 0
    rows: tuple[kernels.LensRow, ...]
