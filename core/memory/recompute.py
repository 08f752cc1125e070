"""What a backward allocates while a checkpoint runs its forward once more, and autocast's copies.

A run of a checkpoint is told by the Python frames of what it allocates: autograd itself has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from llmprof.core.memory.allocator_entries import PhaseMark, PythonStack, Trace

_CHECKPOINT = "torch/utils/checkpoint.py:"
ENGINE = "_engine_run_backward"  # the last Python function of a backward


@dataclass(frozen=True, slots=True)
class LearnedCopies:
    """Which allocations are autocast's copies of weights, by their ordinals from 0.

    forward: in any forward; again: the run of a checkpoint within a backward, and the ordinal in
    that run.
    """

    forward: frozenset[int] = frozenset()
    again: frozenset[tuple[int, int]] = frozenset()


def made_again(trace: Trace) -> frozenset[int]:
    """Entries that a backward allocated while a checkpoint ran its forward once more."""
    within = [_runs_again(stack) for stack in trace.stacks]
    return frozenset(
        index
        for index, mark in _allocations(trace)
        if mark.phase == "backward" and (stack := trace.entries[index].stack) >= 0 and within[stack]
    )


def copies_in(trace: Trace, learned: LearnedCopies, again: frozenset[int]) -> frozenset[int]:
    """Entries that are copies of weights, by what was learned of a step like those recorded."""
    found: set[int] = set()
    inside: PhaseMark | None = None
    ordinal, run, running = 0, -1, False
    for index, mark in _allocations(trace):
        if mark is not inside:
            inside, ordinal, run, running = mark, 0, -1, False
        if mark.phase == "backward":
            if index in again and not running:
                run, ordinal = run + 1, 0
            running = index in again
            known = running and (run, ordinal) in learned.again
        else:
            known = mark.phase == "forward" and ordinal in learned.forward
        if known:
            found.add(index)
        ordinal += 1
    return frozenset(found)


def runs(trace: Trace, again: frozenset[int]) -> dict[int, int]:
    """Of each entry of a run, the entry that follows the run: an allocation that is not of it."""
    found: dict[int, int] = {}
    running: list[int] = []
    for index, entry in enumerate(trace.entries):
        if entry.size > 0 and index not in again:
            found |= dict.fromkeys(running, index)
            running.clear()
        elif index in again:
            running.append(index)
    return found | dict.fromkeys(running, len(trace.entries))


def _runs_again(stack: PythonStack) -> bool:
    """Whether frames lead to a checkpoint, and not by a backward within it."""
    for frame in stack:
        if frame.endswith(f" {ENGINE}"):
            return False
        if frame.startswith(_CHECKPOINT):
            return True
    return False


def _allocations(trace: Trace) -> Iterator[tuple[int, PhaseMark]]:
    """Entries that allocate within a phase."""
    marks = trace.marks
    for index, entry in enumerate(trace.entries):
        if entry.size > 0:
            for mark in marks:
                if mark.start_us <= entry.t_us <= mark.end_us:
                    yield index, mark
                    break
