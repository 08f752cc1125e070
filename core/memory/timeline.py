"""From entries to a timeline: blocks, their categories, levels at every point, the peak."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from llmprof.core.memory.allocator_entries import AllocatorEntry, PhaseMark, Trace
from llmprof.core.memory.recompute import runs
from llmprof.core.predict.byte_levels import (
    ACTIVATIONS,
    CATEGORIES,
    COPIES,
    GRADIENTS,
    INPUTS,
    OPTIMIZER,
    PARAMETERS,
    TEMPORARIES,
    WORKSPACE,
)

OPEN = -1
_NUMBER = re.compile(r"\.\d+(?=\.|$)")


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor that was there before recording began."""

    name: str
    size: int
    category: int


@dataclass(slots=True)
class MemoryBlock:
    """A stretch of memory from its alloc to its free (indices of entries; OPEN: never freed)."""

    address: int
    size: int
    start: int
    end: int
    stack: int
    mark: PhaseMark | None  # of the phase in which it was allocated
    category: int = TEMPORARIES

    @property
    def step(self) -> int:
        """The recorded step; -1 outside."""
        return -1 if self.mark is None else self.mark.step

    @property
    def phase(self) -> str:
        """The phase; empty outside."""
        return "" if self.mark is None else self.mark.phase


@dataclass(frozen=True, slots=True)
class Known:
    """What the recorder knows of addresses: gradients step by step, state after the last."""

    gradients: Sequence[dict[int, str]] = ()  # a step: address of a gradient -> its parameter
    copies: frozenset[int] = frozenset()  # entries that are autocast's copies of weights
    again: frozenset[int] = frozenset()  # entries that a checkpoint made in its second run
    state: Mapping[int, str] = field(default_factory=dict)  # address of optimizer state -> its name


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A phase in the timeline: entries start..end, highest level within, level at its end."""

    step: int
    phase: str
    start: int
    end: int
    peak: int
    after: int


@dataclass(slots=True)
class Timeline:
    """Level of every category after every entry, beside what was held from the start."""

    trace: Trace
    base: tuple[int, ...]  # bytes a category before the first entry
    held: tuple[Held, ...]
    blocks: list[MemoryBlock]
    spans: list[PhaseSpan] = field(default_factory=list)
    peak: int = 0
    peak_at: int = OPEN  # index of the entry that reached it; OPEN: the start
    at_peak: tuple[int, ...] = ()
    changes: list[tuple[int, int]] = field(default_factory=list)  # (category, bytes) an entry
    names: dict[int, str] = field(default_factory=dict)  # start of a block -> what it is

    @property
    def end(self) -> tuple[int, ...]:
        """Bytes a category after the last entry."""
        now = list(self.base)
        for category, size in self.changes:
            now[category] += size
        return tuple(now)

    def levels(self) -> list[tuple[int, ...]]:
        """Bytes a category after each entry."""
        now = list(self.base)
        out = []
        for category, size in self.changes:
            now[category] += size
            out.append(tuple(now))
        return out


def build_timeline(
    trace: Trace, base: dict[int, int], held: Sequence[Held], known: Known
) -> Timeline:
    """The timeline of a trace.

    base: bytes a category before the first entry. What is freed without having been seen
    allocated was part of it and is taken from the workspace, the category of what is unknown.
    """
    start = tuple(base.get(category, 0) for category in range(len(CATEGORIES)))
    blocks, strays = _blocks(trace)
    timeline = Timeline(trace, start, tuple(held), blocks)
    _classify(timeline, known)
    _level(timeline, strays)
    return timeline


def _blocks(trace: Trace) -> tuple[list[MemoryBlock], dict[int, int]]:
    live: dict[int, MemoryBlock] = {}
    blocks: list[MemoryBlock] = []
    strays: dict[int, int] = {}
    for index, entry in enumerate(trace.entries):
        if entry.size > 0:
            mark = _mark_of(trace.marks, entry.t_us)
            block = MemoryBlock(entry.address, entry.size, index, OPEN, entry.stack, mark)
            live[entry.address] = block
            blocks.append(block)
        elif (gone := live.pop(entry.address, None)) is not None:
            gone.end = index
        else:
            strays[index] = entry.size
    return blocks, strays


def _mark_of(marks: Sequence[PhaseMark], t_us: int) -> PhaseMark | None:
    return next((mark for mark in marks if mark.start_us <= t_us <= mark.end_us), None)


def _classify(timeline: Timeline, known: Known) -> None:
    entries = timeline.trace.entries
    ends = {mark: _after(entries, mark.end_us) for mark in timeline.trace.marks}
    backward = {mark.step: end for mark, end in ends.items() if mark.phase == "backward"}
    last = max((mark.step for mark in timeline.trace.marks), default=0)
    run_ends = runs(timeline.trace, known.again)
    for block in timeline.blocks:
        if block.end == OPEN and (0 <= block.step < last or block.address in known.state):
            _stays(timeline, block, known)
            continue
        if block.start in known.copies:
            block.category = COPIES
        elif block.start in run_ends:
            if _lives_at(block, run_ends[block.start]):
                block.category = ACTIVATIONS
        elif (name := _gradient(block, known, backward)) is not None:
            block.category = GRADIENTS
            timeline.names[block.start] = f"gradient of {starred(name)}"
        elif (
            block.mark is not None
            and block.phase in ("forward", "loss")
            and _lives_at(block, ends[block.mark])
        ):
            block.category = ACTIVATIONS


def _stays(timeline: Timeline, block: MemoryBlock, known: Known) -> None:
    """What a step made and no step frees: optimizer state, else the workspace's."""
    name = known.state.get(block.address)
    block.category = WORKSPACE if name is None else OPTIMIZER
    if name is not None:
        timeline.names[block.start] = starred(name)


def _gradient(block: MemoryBlock, known: Known, last: dict[int, int]) -> str | None:
    """The parameter whose gradient a block is; `last`: entries at the end of steps' backwards."""
    if block.phase != "backward" or not 0 <= block.step < len(known.gradients):
        return None
    if not _lives_at(block, last[block.step]):
        return None
    return known.gradients[block.step].get(block.address)


def _lives_at(block: MemoryBlock, index: int) -> bool:
    return block.start < index and (block.end == OPEN or block.end >= index)


def _after(entries: Sequence[AllocatorEntry], t_us: int) -> int:
    """Index of the first entry after a time."""
    return bisect_left(entries, t_us + 1, key=lambda entry: entry.t_us)


def _level(timeline: Timeline, strays: dict[int, int]) -> None:
    category_of = {block.start: block.category for block in timeline.blocks}
    category_of |= {b.end: b.category for b in timeline.blocks if b.end != OPEN}
    now = list(timeline.base)
    timeline.peak, timeline.at_peak = sum(now), tuple(now)
    totals = []
    for index, entry in enumerate(timeline.trace.entries):
        category = WORKSPACE if index in strays else category_of[index]
        now[category] += entry.size
        timeline.changes.append((category, entry.size))
        totals.append(total := sum(now))
        if total > timeline.peak:
            timeline.peak, timeline.peak_at, timeline.at_peak = total, index, tuple(now)
    timeline.spans = [_span(timeline, mark, totals) for mark in timeline.trace.marks]


def _span(timeline: Timeline, mark: PhaseMark, totals: list[int]) -> PhaseSpan:
    entries = timeline.trace.entries
    start = bisect_left(entries, mark.start_us, key=lambda entry: entry.t_us)
    end = _after(entries, mark.end_us)
    before = totals[start - 1] if start else sum(timeline.base)
    after = totals[end - 1] if end else sum(timeline.base)
    peak = max((before, *totals[start:end]))
    return PhaseSpan(mark.step, mark.phase, start, end, peak, after)


def starred(name: str) -> str:
    """A module's or tensor's name with its numbers as stars: blocks.3.ffn is blocks.*.ffn."""
    return _NUMBER.sub(".*", name)


def base_of(held: Sequence[Held], requested_bytes: int) -> dict[int, int]:
    """Bytes a category before recording: what is known by name; the rest is workspace."""
    base = {PARAMETERS: 0, OPTIMIZER: 0, INPUTS: 0}
    for each in held:
        base[each.category] = base.get(each.category, 0) + each.size
    base[WORKSPACE] = requested_bytes - sum(base.values())
    return base
