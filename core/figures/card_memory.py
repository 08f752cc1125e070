"""The card's memory by NVML beside torch's allocator: who holds what while a case runs."""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core.state.card_tally import CardTally
from llmprof.core.state.view import CaseState, RunView


@dataclass(frozen=True)
class CardMemory:
    """used = context + allocated + cached + others + rest, in bytes, at its highest.

    allocated is the peak of torch's allocator in the step measured for memory, cached what it
    had reserved beyond that. Without a measured context, the rest holds the context as well.
    """

    case: int
    used: int
    allocated: int
    cached: int
    context: int | None
    others: int
    rest: int


def card_memory(view: RunView, case: CaseState) -> CardMemory | None:
    """The parts for one case; None where a reading of the highest level is missing."""
    tally = view.tally(case)
    if tally is None or case.memory is None or not len(case.measured):
        return None
    # From the first measured step on, the allocator has reserved what it will.
    used = _highest(tally, "memory_used")
    reserved = max((edge.reserved_bytes or 0 for edge in case.memory.edges), default=0)
    peak = case.memory.peak_bytes
    if used is None or peak is None or not reserved:
        return None
    # Where nothing was read of others while this case ran, the last reading before it counts.
    others = _highest(tally, "other_memory") or 0
    environment = case.environment or view.environment
    context = None if environment is None else environment.context_bytes
    rest = used - others - reserved - (context or 0)
    if rest < 0:  # the readings, one a second, missed the highest level
        return None
    return CardMemory(case.index, used, peak, max(0, reserved - peak), context, others, rest)


def _highest(tally: CardTally, name: str) -> int | None:
    value = tally.highest.get(name)
    return None if value is None else int(value)
