"""Verdicts on the memory of a tracked loop: what will end it, or has."""

from __future__ import annotations

from llmprof.core.figures.part_words import place_words
from llmprof.core.lint.loop_verdict import (
    MIB,
    LoopVerdict,
    growth,
    percent,
    size,
    warm_beats,
)
from llmprof.core.memory.refusals import says_out_of_memory
from llmprof.core.state.histories import CardHistoryView
from llmprof.core.state.loops import LoopState

CREEP_BYTES = 64 * MIB
CREEP_SHARE = 0.03
CREEP_BEATS = 9
SPLIT_SHARE = 0.3  # of the reserved memory that was never used at once
LEAST_RESERVED = 2**30


def out_of_memory(loop: LoopState, card: CardHistoryView | None) -> LoopVerdict | None:
    """The run ended for want of memory: in which part, and what was read last."""
    done = loop.done
    if done is None or not says_out_of_memory(done.error):
        return None
    where = f" {place_words(done.part, apart=loop.started.model)}" if done.part else ""
    found = loop.out_of_memory
    last = loop.beat if found is None or found.allocated_bytes is None else found
    read = [
        f"{name} {size(value)}"
        for name, value in (
            ("asked", found and found.bytes_asked),
            ("free", found and found.free_bytes),
            ("allocated", last and last.allocated_bytes),
            ("reserved", last and last.reserved_bytes),
            ("most ever", last and last.peak_bytes),
        )
        if value
    ]
    said = f"; {'then' if last is found else 'last read'}: {', '.join(read)}" if read else ""
    return LoopVerdict(
        "out of memory",
        loop.rank,
        2.0,
        f"it ended{where} after {loop.steps:,} steps: {done.error}{said}",
        "a smaller batch with accumulation, activation checkpointing, or bf16; "
        "`llmprof predict` says what fits",
        "it passes the step at which this one ended",
    )


def memory_creep(loop: LoopState, card: CardHistoryView | None) -> LoopVerdict | None:
    """Memory grows with every step, long after the first ones."""
    beats = warm_beats(loop)
    on_card = any(beat.allocated_bytes for beat in beats)
    levels = [
        (beat.index, value)
        for beat in beats
        if (value := beat.allocated_bytes if on_card else beat.rss_bytes) is not None
    ]
    if len(levels) < CREEP_BEATS:
        return None
    third = len(levels) // 3
    lows = [min(levels[at * third : (at + 1) * third], key=lambda each: each[1]) for at in range(3)]
    (start, low), (between, middle), (end, high) = lows
    if not start < between < end:
        return None
    growth = high - low
    at_first, later = (middle - low) / (between - start), (high - middle) / (end - between)
    steady = at_first > 0 and later >= at_first / 2  # by step: the pace may change
    if not steady or growth < max(CREEP_BYTES, CREEP_SHARE * low):
        return None
    a_step = growth / (end - start)
    what = "the allocator's memory on the card" if on_card else "the process's memory"
    return LoopVerdict(
        "memory creep",
        loop.rank,
        1.0,
        f"{what} grew from {size(low)} to {size(high)} between steps {start:,} and {end:,}, "
        f"{size(a_step)} a step",
        "look for what is kept from step to step: losses with their graph (`loss.detach()`), "
        "lists, hooks, caches",
        "memory is level after the first steps",
    )


def allocator_retries(loop: LoopState, card: CardHistoryView | None) -> LoopVerdict | None:
    """The allocator had to give its cache back to find room, which waits for the card."""
    beats = [beat for beat in warm_beats(loop) if beat.alloc_retries is not None]
    if len(beats) < 2:
        return None
    first, last = beats[0], beats[-1]
    count = int(growth([beat.alloc_retries or 0 for beat in beats]))
    if not count:
        return None
    return LoopVerdict(
        "allocator retries",
        loop.rank,
        0.5,
        f"the allocator ran out of room {count:,} times after step {first.index:,} and gave its "
        f"cache back, which waits for the card; reserved {size(last.reserved_bytes or 0)}",
        "a smaller batch, activation checkpointing, or "
        "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`",
        "no retries after the first steps",
    )


def fragmentation(loop: LoopState, card: CardHistoryView | None) -> LoopVerdict | None:
    """Much of what the allocator holds was never in use at once."""
    beat = loop.beat
    if beat is None or beat.reserved_bytes is None or beat.peak_bytes is None:
        return None
    unused = beat.reserved_bytes - beat.peak_bytes
    share = unused / max(1, beat.reserved_bytes)
    if share < SPLIT_SHARE or beat.reserved_bytes < LEAST_RESERVED:
        return None
    return LoopVerdict(
        "fragmentation",
        loop.rank,
        0.1,
        f"the allocator holds {size(beat.reserved_bytes)}, of which {size(unused)} "
        f"({percent(share)}) were never in use at once",
        "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`, and batches of few shapes",
        f"that share falls below {percent(SPLIT_SHARE / 2)}",
    )
