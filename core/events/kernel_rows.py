"""What a kernel profile says, as plain structs: the journal carries them.

Times are milliseconds summed over all profiled steps unless a field says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec

Count = Annotated[int, msgspec.Meta(ge=1)]  # a divisor: a stranger's journal cannot make it 0
ProfileSource = Literal["cuda", "cpu"]
TimelineVerdict = Literal["GPU-bound", "partly launch-bound", "launch-bound", "n/a"]
KernelClass = Literal[
    "GEMM",
    "attention",
    "softmax",
    "norm",
    "elementwise",
    "reduction",
    "copy",
    "memset",
    "optimizer",
    "other",
]
CLASSES: tuple[KernelClass, ...] = get_args(KernelClass)
WHOLE_STEP = "step"
UNATTRIBUTED = "unattributed"


class KernelRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One kernel (or memory operation, or CPU op) of one class in one phase.

    op and module are the pair with most of the row's time, origin_share the percent of the time
    that this pair has; place is the CUDA stream or the CPU thread with most of the pair's time,
    source the line that launched most of it. None where nothing is known.
    """

    phase: str
    name: str
    full_name: str
    group: str
    calls: Count
    total_ms: float
    std_ms: float | None = None  # over the calls, which may differ in shape; ddof 1
    min_ms: float
    max_ms: float
    place: int | None = None
    op: str | None = None
    module: str | None = None
    origin_share: float | None = None
    source: str | None = None  # file:line in function of the Python code that launched it
    merged: Count = 1  # kernels in this row: more than 1 only in the row of the rest

    @property
    def avg_ms(self) -> float:
        """Mean duration of a call."""
        return self.total_ms / self.calls


class ShareRow(msgspec.Struct, frozen=True, kw_only=True):
    """Time of one class, op or module in one phase."""

    phase: str
    label: str
    calls: int
    total_ms: float


class GemmCount(msgspec.Struct, frozen=True, kw_only=True):
    """Matrix products of one phase, by the op that launches them."""

    phase: str
    ops: int  # of all steps
    kernels: int | None  # launched by these ops; None on the CPU
    expected_per_step: int | None = None  # the model's count, None where no formula holds
    steps: Count

    @property
    def as_expected(self) -> bool | None:
        """Whether the count is the model's; None without a formula."""
        if self.expected_per_step is None:
            return None
        return self.ops == self.expected_per_step * self.steps


class Launches(msgspec.Struct, frozen=True, kw_only=True):
    """Kernel launches and kernels of one phase, step by step."""

    phase: str
    launches: tuple[int, ...]
    kernels: tuple[int, ...]

    @property
    def steady(self) -> bool:
        """Whether every step launched as many as the first."""
        return len(set(self.launches)) <= 1 and len(set(self.kernels)) <= 1


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How much of what ran is accounted for; shares are percent of the activities' time.

    The shares of modules are None where there are no module ranges.
    """

    activities: int
    launches: int
    launches_without_kernel: int
    to_phase: float | None
    to_op: float | None
    to_module: float | None
    backward_to_module: float | None  # of the backward's time; None without a backward
    outside_steps: int  # activities of no measured step


class PhaseTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """The device during one phase, or the whole step; means of one step, milliseconds.

    wall_ms of a phase lasts from the device's last work of the phase before to its last work of
    this one, of the step from one synchronisation to the next. busy_ms is the union of all
    activities, work_ms their sum, which is larger where they overlap. Idle time is waiting for
    a launch where the activity after the gap had not been launched when the gap began.
    kernels_ms to gemm_ms are parts of work_ms.
    """

    phase: str
    wall_ms: float
    busy_ms: float
    work_ms: float
    kernels_ms: float
    memory_ops_ms: float  # memset and copies on the device
    to_device_ms: float
    to_host_ms: float
    gemm_ms: float
    gemm_busy_ms: float | None = None  # union of the GEMMs; None in journals of before
    waiting_ms: float
    gaps: float  # number in one step
    gap_median_us: float | None = None
    gap_max_us: float | None = None
    launches: float | None = None
    launch_median_us: float | None = None  # duration of the launching call
    launch_gap_median_us: float | None = None  # from one launching call's end to the next's start

    @property
    def idle_ms(self) -> float:
        """Wall time without device activity."""
        return max(0.0, self.wall_ms - self.busy_ms)


class LensRow(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the attention of one layer; means of one training step."""

    direction: Literal["forward", "backward"]
    stage: str
    cpu_us: float | None  # None for the backward, which has no range of its own
    device_us: float
    kernels: float
    flops: float
    bytes: float


class StripInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where the timeline of one step lies."""

    file: str  # in the run's artifacts
    step: int
    wall_ms: Annotated[float, msgspec.Meta(gt=0, le=1e12)]
    activities: int
