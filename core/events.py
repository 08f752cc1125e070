"""What can be observed: one frozen struct a kind; the journal is a list of these.

Times named t and *_ns are CLOCK_MONOTONIC nanoseconds of the writing machine, durations are
milliseconds, sizes are bytes. A figure that is not known, or that torch reported as NaN or
infinite, is None; where a reason is known it stands beside it.
"""

from __future__ import annotations

import time
from typing import Annotated, Literal

import msgspec

from llmprof.core.kernels import rows as kernels
from llmprof.core.spec import Case, Experiment, Phase

SCHEMA = 1

# A journal from elsewhere may say anything; what is outside these bounds is no event.
Ns = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Ms = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**60)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]

FailureKind = Literal["oom", "error", "killed", "timeout", "unsupported", "skipped"]
Outcome = Literal["complete", "stopped", "interrupted", "failed"]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """Base of all events; t says when it was observed."""

    t: Ns = msgspec.field(default_factory=time.monotonic_ns)


class Segment(Event, frozen=True, kw_only=True):
    """An engine began to write: ties this boot's monotonic clock to the wall clock."""

    boot_id: str
    wall_ns: Ns  # time.time_ns() at t
    pid: int
    version: str
    schema: int = SCHEMA


class RunStarted(Event, frozen=True, kw_only=True):
    """The whole plan: the experiment, its cases in order, and the command that asked for it."""

    run_id: str
    experiment: Experiment
    cases: tuple[Case, ...]
    command: tuple[str, ...]


class Ceilings(msgspec.Struct, frozen=True, kw_only=True):
    """What `llmprof calibrate` reached on a device: the best of repeated runs."""

    matmul_tflops: dict[str, float] = {}  # by precision
    copy_gbs: float | None = None  # bytes read and written, 1e9 bytes a second
    torch: str = ""
    wall_ns: int | None = None  # when


class Environment(Event, frozen=True, kw_only=True):
    """The device and software that the run's workers use, read by the probe worker."""

    device: str  # "cuda:0" or "cpu"
    device_name: str
    device_uuid: str | None = None
    pci_bus_id: str | None = None
    capability: tuple[int, int] | None = None
    memory_total_bytes: int | None = None
    memory_free_bytes: int | None = None
    driver: str | None = None
    cuda: str | None = None
    torch: str = ""
    python: str = ""
    system: str = ""
    host: str = ""
    cpu_name: str = ""
    cpu_count: int | None = None
    threads: int | None = None
    unsupported: dict[str, str] = {}  # precision or feature -> why it cannot run here
    matmul_tflops: float | None = None  # fp32, a 0.3 s measurement
    context_ms: float | None = None  # creating the CUDA context
    context_bytes: int | None = None
    import_ms: float | None = None
    ceilings: Ceilings | None = None  # of an earlier calibration of this device


class Planned(Event, frozen=True, kw_only=True):
    """What the engine expects of a case before it runs."""

    case: int
    estimate_s: float | None = None


class CaseStarted(Event, frozen=True, kw_only=True):
    """A worker process took up a case."""

    case: int
    pid: int


class ModelBuilt(Event, frozen=True, kw_only=True):
    """The model as it was built: counted, not computed."""

    case: int
    parameters: int
    parameter_tensors: int
    parameter_dtypes: tuple[str, ...]
    own_ms: float | None = None  # llmprof's own part of starting this process
    context_ms: float | None = None
    build_ms: float | None = None


class Observed(Event, frozen=True, kw_only=True):
    """What really ran, read from tensors and settings after the measured steps."""

    case: int
    logits_dtype: str | None = None
    loss_dtype: str | None = None
    tf32: bool | None = None
    batch_size: int | None = None
    context_length: int | None = None
    attention_backend: str | None = None
    parameters_changed: bool | None = None  # None: the mode has no optimizer
    updates_skipped: int | None = None  # by the GradScaler, of all steps; None without one
    qkv_gradients: bool | None = None  # None: the mode has no backward
    recompilations: int | None = None
    compile_ms: float | None = None  # first step of a cold compile cache, its run included
    cpu_wait_percent: float | None = None  # of its threads' time, waiting for a core
    alloc_retries: int | None = None  # in the measured steps: the allocator had to free and retry
    warmup_stop: str | None = None  # why an automatic warm-up ended
    measure_stop: str | None = None  # why automatic measuring ended; names an unmet target


class StepDone(Event, frozen=True, kw_only=True):
    """One step. Phase tuples follow spec.PHASES, None where the mode has no such phase.

    On CUDA device_ms comes from device events at the phase edges and host_ms is the time the
    host took to enqueue the same phase; on the CPU both are the host clock. wall_ms lies
    between two synchronisations.
    """

    case: int
    index: Count  # from 0, warm-up and measured steps counted apart
    warmup: bool
    start_ns: Ns
    wall_ms: Ms
    total_ms: Ms  # first phase edge to last, device clock
    device_ms: tuple[Ms | None, ...]
    host_ms: tuple[Ms | None, ...]
    loss: Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)] | None = None
    loss_reason: str | None = None  # "nan" or "inf" where the loss was no number
    allocated_bytes: Bytes | None = None


class Calibrated(Event, frozen=True, kw_only=True):
    """The device's ceilings, measured by a case of the calibrate probe."""

    case: int
    ceilings: Ceilings


class Parked(Event, frozen=True, kw_only=True):
    """A worker of an interleaved case has ended a turn and waits for its next."""

    case: int


class LiveAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """Memory live at the peak: `count` blocks of one size from one place."""

    size: int
    count: int
    category: str
    phase: str  # in which it was allocated; empty: before recording
    what: str  # a tensor's name, or the first Python frame that is not torch's


class SavedBytes(msgspec.Struct, frozen=True, kw_only=True):
    """What modules save for backward: storages counted once, parameters left out.

    Modules alike but for a number are one, `blocks.*.ffn`, with the bytes of all of them.
    """

    module: str
    bytes: int
    tensors: int
    modules: int = 1


class MemoryPhase(msgspec.Struct, frozen=True, kw_only=True):
    """A phase of a recorded step: highest requested level within it and the level after it."""

    step: int
    phase: str
    peak_bytes: int
    after_bytes: int


class Predicted(Event, frozen=True, kw_only=True):
    """What a case is predicted to need, known before it runs; at the peak, by category."""

    case: int
    requested_bytes: int
    allocated_low: int
    allocated_high: int
    peak_phase: Phase
    breakdown: dict[str, int]  # category -> requested bytes; sums to requested_bytes
    phase_peaks: dict[str, int] = {}  # phase -> requested bytes
    attention_kernel: str | None = None  # assumed for fused attention
    verdict: str | None = None  # against the card that is there; None without one
    source: Literal["closed form", "traced"] = "closed form"
    upper_bound: bool = False  # compiled models need less


class MemoryEdge(msgspec.Struct, frozen=True, kw_only=True):
    """Allocator state at the end of a phase; peaks are of that phase alone."""

    phase: Phase | Literal["start"]
    allocated_bytes: Bytes
    peak_bytes: Bytes
    requested_peak_bytes: Bytes | None = None
    reserved_bytes: Bytes | None = None


class MemoryStep(Event, frozen=True, kw_only=True):
    """Memory at the phase edges of one extra step that is not timed."""

    case: int
    edges: tuple[MemoryEdge, ...]
    source: str  # "cuda allocator" or "process resident set"

    @property
    def peak_bytes(self) -> int | None:
        """Highest level of any phase."""
        return max((edge.peak_bytes for edge in self.edges), default=None)


class Metric(msgspec.Struct, frozen=True, array_like=True):
    """One reading: a value, or the reason why there is none."""

    value: Annotated[float, msgspec.Meta(ge=-1e18, le=1e18)] | None
    reason: str | None = None


class CardProcess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process that holds memory on a card; what could not be read is None."""

    pid: int | None  # None: the driver gave an impossible one
    memory_bytes: int | None = None
    user: str | None = None
    command: str | None = None
    ours: bool = False  # belongs to this run
    local: bool = True  # False: a pid of another namespace, such as the container's host
    sm_percent: float | None = None  # share of the driver's window in which it used the SMs


class MigInstance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One slice of a card in MIG mode."""

    uuid: str | None = None
    name: str = ""
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None


class CardSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One card at one instant: the metrics that were due. Names and units: devices/metrics.py."""

    index: int
    uuid: str | None = None
    pci_bus_id: str | None = None
    name: str = ""
    state: Literal["ok", "lost", "stale"] = "ok"
    metrics: dict[str, Metric] = {}
    throttle: tuple[str, ...] = ()
    processes: tuple[CardProcess, ...] | None = None  # None: not read in this sample
    mig: tuple[MigInstance, ...] = ()
    unified: bool = False  # its memory is the host's


class HostSample(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The host at one instant."""

    cpu_percent: Ms | None = None
    memory_used_bytes: Bytes | None = None
    memory_total_bytes: Bytes | None = None
    load1: Ms | None = None


class MemoryTimeline(Event, frozen=True, kw_only=True):
    """Recorded steps, allocation by allocation; the points are an artifact of the run.

    Bytes are requested bytes unless they are called allocated or reserved. Categories sum to
    the level at every point. `overflow`: the recorder's ring was full and the start is lost.
    """

    case: int
    artifact: str  # memory-N.json.gz: core/memory/points.py reads it
    source: Literal["cuda allocator", "cpu tensors"]
    steps: int
    entries: int
    peak_bytes: int
    at_peak: dict[str, int]
    before: dict[str, int]  # by category, before the first recorded step
    phases: tuple[MemoryPhase, ...]
    largest: tuple[LiveAllocation, ...]
    saved: tuple[SavedBytes, ...] = ()
    overflow: bool = False
    requested_peak_bytes: int | None = None  # what the allocator itself counted
    allocated_peak_bytes: int | None = None
    allocated_bytes: int | None = None  # after the steps
    reserved_bytes: int | None = None
    driver_used_bytes: int | None = None  # of the whole card, as CUDA counts
    card: CardSample | None = None  # the same moment as NVML sees it
    snapshot: str | None = None  # pickle for pytorch.org/memory_viz


class DeviceSample(Event, frozen=True, kw_only=True):
    """What the sampler read: every visible card and the host."""

    host: HostSample
    cards: tuple[CardSample, ...] = ()
    cards_reason: str | None = None  # why there are no cards
    cost_ms: float | None = None  # what this poll took


class KernelTable(Event, frozen=True, kw_only=True):
    """Where a profiled case's time went; times are sums over its profiled steps."""

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
    trace: str | None = None  # Chrome trace in the run's artifacts
    notes: tuple[str, ...] = ()


class TimelineFacts(Event, frozen=True, kw_only=True):
    """Busy, idle and launches of a profiled case; parts begin with the whole step."""

    case: int
    source: kernels.ProfileSource
    parts: Annotated[tuple[kernels.PhaseTimeline, ...], msgspec.Meta(min_length=1)]
    verdict: kernels.Verdict
    strip: kernels.StripInfo | None = None


class AttentionLens(Event, frozen=True, kw_only=True):
    """The attention of one layer, stage by stage."""

    case: int
    source: kernels.ProfileSource
    layer: int  # from 0
    rows: tuple[kernels.LensRow, ...]


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a case gave no figures."""

    kind: FailureKind
    message: str
    phase: str | None = None
    bytes_asked: int | None = None
    predicted: bool = False  # not tried: known beforehand not to fit
    instead: str | None = None  # what to run instead
    exit_code: int | None = None
    outside: bool = False  # through nothing of the case's own: a resumed run measures it


class CaseFailed(Event, frozen=True, kw_only=True):
    """A case ended without its figures; what was measured before stays."""

    case: int
    failure: Failure


class CaseDone(Event, frozen=True, kw_only=True):
    """A case ended with all its figures."""

    case: int


class Log(Event, frozen=True, kw_only=True):
    """A line for whoever watches."""

    message: str
    level: Literal["info", "warning", "error"] = "info"
    case: int | None = None


class RunDone(Event, frozen=True, kw_only=True):
    """The engine's last word."""

    outcome: Outcome


AnyEvent = (
    Segment
    | RunStarted
    | Environment
    | Planned
    | CaseStarted
    | ModelBuilt
    | Observed
    | StepDone
    | MemoryStep
    | Predicted
    | MemoryTimeline
    | DeviceSample
    | KernelTable
    | TimelineFacts
    | AttentionLens
    | Calibrated
    | Parked
    | CaseFailed
    | CaseDone
    | Log
    | RunDone
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


class _Kind(msgspec.Struct):
    kind: str


_kind_decoder = msgspec.json.Decoder(_Kind)
KINDS = frozenset(str(kind.__struct_config__.tag) for kind in Event.__subclasses__())


class UnknownKind(ValueError):
    """A well-formed event of a kind this version does not know."""


def encode(event: Event) -> bytes:
    """One journal line, newline included."""
    return _encoder.encode(event) + b"\n"


def decode(line: bytes) -> AnyEvent:
    """An event from one journal line.

    Raises UnknownKind for a kind of a newer version, msgspec.DecodeError for anything else
    that is not an event.
    """
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        kind = _kind_decoder.decode(line).kind
        if kind not in KINDS:
            raise UnknownKind(kind) from None
        raise
