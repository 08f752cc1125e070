"""Where a card's used memory is: what the driver counts against what torch's allocator knows."""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core.events import CardSample, MemoryTimeline

GREW = "the context is what the card's used memory grew by, other processes are in the rest"


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """used = context + allocated + cached + others + rest, in bytes.

    context: CUDA context, modules and libraries of this process; cached: reserved by the
    allocator and not allocated; others: other processes; rest: what is in none of these. A part
    that could not be read is None, with the reason, and lies in the rest.
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


def reconcile(event: MemoryTimeline) -> Reconciliation | None:
    """Put the allocator's and the driver's figures together; None for a run without a card.

    The process list gives what this process and the others hold. Where this process is not in
    it, as in a container, its context is what the card's used bytes grew by since before it was
    made, less what the allocator has reserved.
    """
    if event.driver_used_bytes is None or event.allocated_bytes is None:
        return None
    reserved = event.reserved_bytes or 0
    cached = reserved - event.allocated_bytes
    used = _used(event, event.card)
    own, others, reason = _processes(event.card)
    if own is None and event.driver_before_bytes is not None:
        own, reason = used - event.driver_before_bytes, f"{reason}: {GREW}"
    context = None if own is None else own - reserved
    if (context is not None and context < 0) or used < reserved + (context or 0) + (others or 0):
        context = others = None
        reason = "the driver's figures are of another moment than the allocator's"
    rest = used - reserved - (context or 0) - (others or 0)
    return Reconciliation(used, event.allocated_bytes, cached, context, others, rest, reason)


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
