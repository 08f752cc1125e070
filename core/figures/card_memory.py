"""Where a card's used memory is: what the driver counts against what torch's allocator knows."""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core.events import CardSample, MemoryTimeline
from llmprof.core.state.card_tally import CardTally
from llmprof.core.state.view import CaseState, RunView

GREW = "the context is what the card's used memory grew by, other processes are in the rest"
OTHER_MOMENT = "the driver's figures are of another moment than the allocator's"


@dataclass(frozen=True, slots=True)
class CardMemory:
    """used = context + allocated + cached + others + rest, in bytes.

    context: CUDA context, modules and libraries of this process; cached: reserved by the
    allocator and not allocated; others: other processes; rest: what is in none of these. A part
    that could not be read is None, with the reason where there is one, and lies in the rest.
    """

    used: int
    allocated: int
    cached: int
    context: int | None
    others: int | None
    rest: int
    reason: str | None = None

    @property
    def complete(self) -> bool:
        """Whether every part is known."""
        return self.context is not None and self.others is not None

    @property
    def possible(self) -> bool:
        """Whether the parts are of one moment: nothing is negative."""
        return self.rest >= 0 and self.cached >= 0 and (self.context or 0) >= 0


def memory_while_measured(view: RunView, case: CaseState) -> CardMemory | None:
    """The card at its highest while a case's steps were measured; None where that was missed.

    allocated is the peak of torch's allocator in the step measured for memory.
    """
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
    found = _Readings(used, peak, max(reserved, peak), context, others).parts()
    return found if found.possible else None  # one reading a second misses some highest levels


def memory_when_recorded(event: MemoryTimeline) -> CardMemory | None:
    """The card when a recording of memory was made; None for a run without a card.

    The process list gives what this process and the others hold. Where this process is not in
    it, as in a container, its context is what the card's used bytes grew by since before it was
    made, less what the allocator has reserved.
    """
    if event.driver_used_bytes is None or event.allocated_bytes is None:
        return None
    reserved, allocated = event.reserved_bytes or 0, event.allocated_bytes
    used = _used(event, event.card)
    own, others, reason = _processes(event.card)
    if own is None and event.driver_before_bytes is not None:
        own, reason = used - event.driver_before_bytes, f"{reason}: {GREW}"
    context = None if own is None else own - reserved
    found = _Readings(used, allocated, reserved, context, others).parts(reason)
    if found.possible:
        return found
    return _Readings(used, allocated, reserved, None, None).parts(OTHER_MOMENT)


@dataclass(frozen=True, slots=True)
class _Readings:
    used: int
    allocated: int
    reserved: int
    context: int | None
    others: int | None

    def parts(self, reason: str | None = None) -> CardMemory:
        """The equation, solved for the rest."""
        rest = self.used - self.reserved - (self.context or 0) - (self.others or 0)
        cached = self.reserved - self.allocated
        return CardMemory(
            self.used, self.allocated, cached, self.context, self.others, rest, reason
        )


def _highest(tally: CardTally, name: str) -> int | None:
    value = tally.highest.get(name)
    return None if value is None else int(value)


def _used(event: MemoryTimeline, sample: CardSample | None) -> int:
    metric = None if sample is None else sample.metrics.get("memory_used")
    if metric is None or metric.value is None:
        return event.driver_used_bytes or 0
    return int(metric.value)


def _processes(sample: CardSample | None) -> tuple[int | None, int | None, str | None]:
    if sample is None:
        return None, None, "NVML could not be read while the case ran"
    if sample.processes is None:
        return None, None, "the driver's process list was not read"
    sizes = {True: 0, False: 0}
    for process in sample.processes:
        if process.memory_bytes is None:
            return None, None, "the driver does not say how much a process holds"
        sizes[process.ours] += process.memory_bytes
    if not sizes[True]:  # one of the others may be this process under the host's pid
        return None, None, "this run's process is not in the driver's list"
    return sizes[True], sizes[False], None
