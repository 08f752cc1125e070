"""What is live at the peak of a timeline, or at another moment, largest first."""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core.memory.allocator_entries import AUTOGRAD, PythonStack, own_line
from llmprof.core.memory.timeline import OPEN, MemoryBlock, Timeline, starred
from llmprof.core.predict.byte_levels import CATEGORIES


@dataclass(frozen=True, slots=True)
class LiveBlock:
    """Something live at the peak: alike blocks are one, `count` of them."""

    size: int
    count: int
    category: str
    phase: str  # where it was allocated; empty: before recording
    what: str  # a parameter's name or the first Python frame that is not torch's
    stack: PythonStack = ()  # of one of them

    @property
    def total(self) -> int:
        """Bytes of all of them."""
        return self.size * self.count


def largest_live(timeline: Timeline, limit: int, at: int | None = None) -> list[LiveBlock]:
    """The largest allocations live at the peak, alike ones together, largest total first.

    at: after which entry instead.
    """
    at = timeline.peak_at if at is None else at
    found: dict[tuple[int, str, str, str], int] = {}
    stacks: dict[tuple[int, str, str, str], PythonStack] = {}
    for held in timeline.held:
        key = (held.size, CATEGORIES[held.category], "", starred(held.name))
        found[key] = found.get(key, 0) + 1
    for block in timeline.blocks:
        if block.start <= at and (block.end == OPEN or block.end > at):
            stack = _stack(timeline, block)
            what = timeline.names.get(block.start) or _where(stack, block)
            key = (block.size, CATEGORIES[block.category], block.phase, what)
            found[key] = found.get(key, 0) + 1
            stacks.setdefault(key, stack)
    live = [LiveBlock(key[0], count, *key[1:], stacks.get(key, ())) for key, count in found.items()]
    return sorted(live, key=lambda each: (-each.total, each.what))[:limit]


def _stack(timeline: Timeline, block: MemoryBlock) -> PythonStack:
    return timeline.trace.stacks[block.stack] if block.stack >= 0 else ()


def _where(stack: PythonStack, block: MemoryBlock) -> str:
    return own_line(stack) or (AUTOGRAD if block.phase == "backward" else "unknown")
