"""One case: its model, its steps, what really ran, how it ended."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from llmprof.core.events.base import Bytes, Count, Event, Ms, Ns
from llmprof.core.events.run import Ceilings

# stopped: cut off as the user stopped the run; killed: by something else.
FailureKind = Literal["oom", "error", "killed", "stopped", "timeout", "unsupported", "skipped"]
SKIPPED: Final = "skipped"  # a case that was never run, on the screen and in every export
ITS_OWN: Final = "its own"  # what a model's factory chose, where more is not known


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
    form: str = ""  # of an own model: how it is called and where its loss is
    loss_inside: bool = False  # its forward computes the loss: there is no phase of it
    unit: Literal["tokens", "samples"] = "tokens"  # of which a batch is made
    optimizer: str = ""  # an own model's own: "fused SGD"; ITS_OWN where the mode makes none


class SumSeen(msgspec.Struct, frozen=True, kw_only=True):
    """`count` times `term` added one by one: with terms of a dtype, the sum of another."""

    terms: str
    total: str
    count: int
    term: float
    result: float


class AttentionErrors(msgspec.Struct, frozen=True, kw_only=True):
    """How far an attention is from naive attention on the same inputs: ‖difference‖ / ‖exact‖.

    reason: why some are not known.
    """

    reference: str  # float64 or float32
    output: float | None = None
    query: float | None = None  # gradients
    key: float | None = None
    value: float | None = None
    reason: str | None = None


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
    throttled_periods: int | None = None  # in which a CPU quota was used up; None without one
    throttled_percent: float | None = None  # of the time its threads could have run
    alloc_retries: int | None = None  # in the measured steps: the allocator had to free and retry
    steal_percent: float | None = None  # of the machine's time in the steps, run for other guests
    host_pace_us: tuple[float, ...] | None = None  # before and after: a launch, or a product
    forward_flops: Count | None = None  # of an own model, as torch counts them
    compile_loss: float | None = None  # of the step that compiled
    graphs: int | None = None  # of a compiled step, forward ones
    graph_breaks: int | None = None
    first_break: str | None = None  # its reason and line
    errors: AttentionErrors | None = None  # of one attention alone
    dtypes: dict[str, str] = {}  # component -> dtype seen in a step
    sums: tuple[SumSeen, ...] = ()  # in a mixed precision
    warmup_stop: str | None = None  # why an automatic warm-up ended
    measure_stop: str | None = None  # why automatic measuring ended; names an unmet target


class StepDone(Event, frozen=True, kw_only=True, gc=False):
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


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a case gave no figures."""

    kind: FailureKind
    message: str
    phase: str | None = None
    bytes_asked: int | None = None
    allocated_bytes: int | None = None  # by the allocator when it failed
    reserved_bytes: int | None = None
    free_bytes: int | None = None  # on the card then
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
