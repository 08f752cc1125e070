"""The peaks of a case's memory, each called what it is.

Allocated bytes are the blocks that CUDA's allocator gave out, which a card must have; requested
bytes are what the tensors in them need; the resident set is the process's own on a CPU. Where
several are known, allocated bytes come first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from llmprof.core.state.view import CaseState

PeakKind = Literal["allocated", "resident"]
ToldKind = Literal["allocated", "requested", "resident"]


@dataclass(frozen=True)
class MemoryPeaks:
    """Highest levels of one step in bytes; None for what was not counted."""

    allocated: int | None = None
    requested: int | None = None
    resident: int | None = None

    @property
    def first(self) -> int | None:
        """What is compared between cases: allocated bytes, on a CPU the resident set."""
        return self.resident if self.allocated is None else self.allocated

    @property
    def told(self) -> tuple[int, ToldKind] | None:
        """The one that speaks of a case alone, with its kind: the process's own comes last."""
        if self.allocated is not None:
            return self.allocated, "allocated"
        if self.requested is not None:
            return self.requested, "requested"
        return None if self.resident is None else (self.resident, "resident")


def peaks_of(state: CaseState) -> MemoryPeaks:
    """Those of the step that was read at its edges; of a recording where that has none."""
    step, recorded = state.memory, state.memory_timeline
    allocated = requested = resident = None
    if step is not None and step.on_card:
        allocated, requested = step.peak_bytes, step.peak_requested_bytes
    elif step is not None:
        resident = step.peak_bytes
    if recorded is not None:
        allocated = recorded.allocated_peak_bytes if allocated is None else allocated
        requested = recorded.peak_bytes if requested is None else requested
    return MemoryPeaks(allocated, requested, resident)


def kind_of(states: Iterable[CaseState]) -> PeakKind:
    """What the first peak of these cases counts; of cases without one what it would count."""
    cases = list(states)
    steps = [state.memory for state in cases if state.memory is not None]
    if steps:
        return "allocated" if any(step.on_card for step in steps) else "resident"
    known = [state.environment.device for state in cases if state.environment is not None]
    return "resident" if known and all(device == "cpu" for device in known) else "allocated"
