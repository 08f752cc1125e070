"""Where a card's used memory is: what the driver counts against what torch's allocator knows."""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core.events import CardSample, MemoryTimeline


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Parts of a card's used bytes; a part is None when it could not be read, with the reason.

    context: CUDA context, modules and libraries of this process; cached: reserved by the
    allocator and not allocated; others: other processes; driver: what is in no process.
    """

    used: int
    allocated: int
    cached: int
    context: int | None
    others: int | None
    driver: int | None
    reason: str | None = None

    @property
    def complete(self) -> bool:
        """Whether every part is known; they sum to `used` then."""
        return self.reason is None


def reconcile(event: MemoryTimeline) -> Reconciliation | None:
    """Put the allocator's and the driver's figures together; None for a run without a card.

    The process list gives what this process and the others hold. Where it cannot be read, the
    context and the others stay one unknown.
    """
    if event.driver_used_bytes is None or event.allocated_bytes is None:
        return None
    sample = event.card
    reserved = event.reserved_bytes or 0
    cached = reserved - event.allocated_bytes
    used = _used(event, sample)
    own, others, reason = _processes(sample)
    if own is None or others is None:
        return Reconciliation(used, event.allocated_bytes, cached, None, others, None, reason)
    context = own - reserved
    driver = used - own - others
    if context < 0 or driver < 0:
        reason = "the driver's figures are of another moment than the allocator's"
        return Reconciliation(used, event.allocated_bytes, cached, None, others, None, reason)
    return Reconciliation(used, event.allocated_bytes, cached, context, others, driver)


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
    if not sizes[True]:
        return None, sizes[False], "this run's process is not in the driver's list"
    return sizes[True], sizes[False], None
