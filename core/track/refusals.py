"""What is to be said of a training whose allocator had no room: read once, inside the refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from llmprof.core import events as ev
from llmprof.core.memory.refusals import bytes_asked, says_out_of_memory
from llmprof.core.system.text import clean
from llmprof.core.track.allocator import AllocatorFigures
from llmprof.core.track.parts import current
from llmprof.core.track.tracker import Tracker

MOST_BLOCKS = 20
Said = Callable[[ev.LoopOutOfMemory], None]
_watched: CardRefusals | None = None  # torch keeps its observers for the life of the process


class CardRefusals:
    """Called by CUDA's allocator as it refuses, on the thread that asked; raises nothing.

    The first refusal is said, with the largest blocks where the program had the allocator's
    history on; of later ones the newest is kept, for one of them may end the training.
    """

    def __init__(self, tracker: Tracker, say: Said, figures: Callable[[int], Any]) -> None:
        self._tracker = tracker
        self._say = say
        self._figures = figures
        self.first: ev.LoopOutOfMemory | None = None  # which was said
        self.newest: ev.LoopOutOfMemory | None = None

    def __call__(self, device: int, asked: int, total: int, free: int) -> None:
        """Note a refusal."""
        if not self._tracker.working:
            return
        try:
            largest = self._largest(device) if self.first is None else ()
            self.newest = refused(
                self._tracker,
                self._figures(device),
                bytes_asked=asked,
                free_bytes=free,
                total_bytes=total,
                largest=largest,
            )
            if self.first is None:
                self.first = self.newest
                self._say(self.newest)
        except Exception:  # whatever it is, the program's own exception is what counts
            return

    @staticmethod
    def _largest(device: int) -> tuple[ev.LiveAllocation, ...]:
        is_on = getattr(torch._C, "_cuda_isHistoryEnabled", None)
        if is_on is None or not is_on():
            return ()
        from llmprof.core.memory.segments import largest_in_segments  # seldom needed

        return tuple(
            ev.LiveAllocation(
                size=each.size,
                count=each.count,
                category=each.category,
                phase=each.phase,
                what=clean(each.what, 200),
                stack=each.stack,
            )
            for each in largest_in_segments(torch.cuda.memory._snapshot(), device, MOST_BLOCKS)
        )


def watch_refusals(
    tracker: Tracker, say: Said, figures: Callable[[int], AllocatorFigures | None]
) -> CardRefusals:
    """Note what CUDA's allocator refuses from now on; of one loop of the process at a time."""
    global _watched
    attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if attach is not None and _watched is None:
        attach(_to_the_watched)
    _watched = CardRefusals(tracker, say, figures)
    return _watched


def _to_the_watched(device: int, asked: int, total: int, free: int) -> None:
    if _watched is not None:
        _watched(device, asked, total, free)


def last_words(
    tracker: Tracker, error: BaseException, part: str, memory: AllocatorFigures | None
) -> ev.LoopOutOfMemory | None:
    """Of an exception that ends a training for want of memory; None for any other."""
    said = f"{type(error).__name__}: {error}"
    if not isinstance(error, (RuntimeError, MemoryError)) or not says_out_of_memory(said):
        return None
    return refused(tracker, memory, part=part, bytes_asked=bytes_asked(said))


LastWords = Callable[
    [Tracker, BaseException, str, AllocatorFigures | None], ev.LoopOutOfMemory | None
]


def refused(
    tracker: Tracker, memory: AllocatorFigures | None, part: str = "", **read: Any
) -> ev.LoopOutOfMemory:
    """The event of a refusal at this moment."""
    return ev.LoopOutOfMemory(
        part=part or current([name for _, name, _ in tracker.marks]),
        index=tracker.place.step,
        allocated_bytes=None if memory is None else memory.allocated,
        peak_bytes=None if memory is None else memory.peak,
        reserved_bytes=None if memory is None else memory.reserved,
        alloc_retries=None if memory is None else memory.retries,
        **read,
    )
