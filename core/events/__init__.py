"""What can be observed: one frozen struct a kind; the journal is a list of these.

Times named t and *_ns are CLOCK_MONOTONIC nanoseconds of the writing machine, durations are
milliseconds, sizes are bytes. A figure that is not known, or that torch reported as NaN or
infinite, is None; where a reason is known it stands beside it.
"""

from __future__ import annotations

import msgspec

from llmprof.core.events.base import JOURNAL_SCHEMA, Bytes, Count, Event, Ms, Ns
from llmprof.core.events.case import (
    ITS_OWN,
    SKIPPED,
    AttentionErrors,
    Calibrated,
    CaseDone,
    CaseFailed,
    CaseStarted,
    Failure,
    FailureKind,
    ModelBuilt,
    Observed,
    Parked,
    StepDone,
    SumSeen,
)
from llmprof.core.events.devices import (
    CardProcess,
    CardSample,
    DeviceSample,
    HostSample,
    Metric,
    MigInstance,
)
from llmprof.core.events.kernels import AttentionLens, KernelTable, TimelineFacts
from llmprof.core.events.loop import (
    LoopBeat,
    LoopDevice,
    LoopDone,
    LoopOutOfMemory,
    LoopStarted,
    LoopSteps,
)
from llmprof.core.events.memory import (
    LiveAllocation,
    MemoryAtFailure,
    MemoryEdge,
    MemoryPhase,
    MemoryStep,
    MemoryTimeline,
    Predicted,
    SavedBytes,
)
from llmprof.core.events.run import (
    Ceilings,
    Environment,
    Log,
    Outcome,
    Planned,
    RunDone,
    RunStarted,
    Segment,
)

__all__ = [
    "ITS_OWN",
    "JOURNAL_SCHEMA",
    "KINDS",
    "SKIPPED",
    "AnyEvent",
    "AttentionErrors",
    "AttentionLens",
    "Bytes",
    "Calibrated",
    "CardProcess",
    "CardSample",
    "CaseDone",
    "CaseFailed",
    "CaseStarted",
    "Ceilings",
    "Count",
    "DeviceSample",
    "Environment",
    "Event",
    "Failure",
    "FailureKind",
    "HostSample",
    "KernelTable",
    "LiveAllocation",
    "Log",
    "LoopBeat",
    "LoopDevice",
    "LoopDone",
    "LoopOutOfMemory",
    "LoopStarted",
    "LoopSteps",
    "MemoryAtFailure",
    "MemoryEdge",
    "MemoryPhase",
    "MemoryStep",
    "MemoryTimeline",
    "Metric",
    "MigInstance",
    "ModelBuilt",
    "Ms",
    "Ns",
    "Observed",
    "Outcome",
    "Parked",
    "Planned",
    "Predicted",
    "RunDone",
    "RunStarted",
    "SavedBytes",
    "Segment",
    "StepDone",
    "SumSeen",
    "TimelineFacts",
    "UnknownKind",
    "decode",
    "decode_lines",
    "encode",
]

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
    | MemoryAtFailure
    | DeviceSample
    | KernelTable
    | TimelineFacts
    | AttentionLens
    | Calibrated
    | Parked
    | CaseFailed
    | CaseDone
    | LoopStarted
    | LoopDevice
    | LoopSteps
    | LoopBeat
    | LoopOutOfMemory
    | LoopDone
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


def decode_lines(lines: bytes) -> list[AnyEvent] | None:
    """An event a line, of lines that end in newlines; None unless each holds exactly one."""
    try:
        events = _decoder.decode_lines(lines)
    except (msgspec.DecodeError, ValueError, OverflowError):
        return None
    return events if len(events) == lines.count(b"\n") else None
