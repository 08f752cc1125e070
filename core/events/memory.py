"""Memory: predicted, read at the phase edges, and allocation by allocation."""

from __future__ import annotations

from typing import Literal

import msgspec

from llmprof.core.events.base import Bytes, Event
from llmprof.core.events.devices import CardSample
from llmprof.core.spec.case import Phase

CUDA_ALLOCATOR = "cuda allocator"
RESIDENT_SET = "process resident set"


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
    source: str  # CUDA_ALLOCATOR or RESIDENT_SET

    @property
    def on_card(self) -> bool:
        """Whether the levels are of CUDA's allocator, in allocated bytes."""
        return self.source == CUDA_ALLOCATOR

    @property
    def peak_bytes(self) -> int | None:
        """Highest level of any phase: allocated bytes on a card, else the resident set."""
        return max((edge.peak_bytes for edge in self.edges), default=None)

    @property
    def peak_requested_bytes(self) -> int | None:
        """Highest level of requested bytes, which CUDA's allocator alone counts."""
        known = [each.requested_peak_bytes for each in self.edges if each.requested_peak_bytes]
        return max(known, default=None)


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
    context_bytes: int | None = None  # of the CUDA context, measured; None: assumed for it
    source: Literal["closed form", "traced"] = "closed form"
    upper_bound: bool = False  # of a compiled model, which mostly needs less than the eager one


class LiveAllocation(msgspec.Struct, frozen=True, kw_only=True):
    """Memory live at the peak: `count` blocks of one size from one place."""

    size: int
    count: int
    category: str
    phase: str  # in which it was allocated; empty: before recording
    what: str  # a tensor's name, or the first Python frame that is not torch's
    stack: tuple[str, ...] = ()  # Python frames of one of the blocks, innermost first


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


class MemoryTimeline(Event, frozen=True, kw_only=True):
    """Recorded steps, allocation by allocation; the points are an artifact of the run.

    Bytes are requested bytes unless they are called allocated or reserved. Categories sum to
    the level at every point. `overflow`: the recorder's ring was full and the start is lost.
    """

    case: int
    artifact: str | None  # memory-N.json.gz: core/memory/kept_timeline.py reads it
    source: Literal["cuda allocator", "cpu tensors"]
    steps: int
    entries: int
    peak_bytes: int
    at_peak: dict[str, int]
    before: dict[str, int]  # by category, before the first recorded step
    after: dict[str, int] = {}  # by category, after the last; empty in journals of before
    phases: tuple[MemoryPhase, ...]
    largest: tuple[LiveAllocation, ...]
    saved: tuple[SavedBytes, ...] = ()
    overflow: bool = False
    requested_peak_bytes: int | None = None  # what the allocator itself counted
    allocated_peak_bytes: int | None = None
    allocated_bytes: int | None = None  # after the steps
    reserved_bytes: int | None = None
    driver_used_bytes: int | None = None  # of the whole card, as CUDA counts
    driver_before_bytes: int | None = None  # by NVML, before this process made its context
    card: CardSample | None = None  # the same moment as NVML sees it
    snapshot: str | None = None  # pickle for pytorch.org/memory_viz
    missing: tuple[str, ...] = ()  # what belongs to it or was asked for, and why it is not there


class MemoryAtFailure(Event, frozen=True, kw_only=True):
    """What was alive when the allocator had no room, from its history, in requested bytes.

    Recorded while the steps of a case that ran out of memory were run once more in its process:
    recording slows steps, so the case itself is measured without.
    """

    case: int
    source: Literal["cuda allocator", "cpu tensors"]
    phase: str  # in which the repeat failed
    bytes_asked: int | None
    live: dict[str, int]  # by category
    largest: tuple[LiveAllocation, ...]
    overflow: bool = False  # the start of the history is lost: some of it is of no known category
