"""The allocator that is replayed: rounding, segments, splitting, merging, running out."""

from __future__ import annotations

import itertools
import random

import pytest

from llmprof.core.predict.allocator import AllocatorBlock, CachingAllocator, OutOfMemory

MIB = 1 << 20


def test_small_requests_share_a_segment_of_two_mib() -> None:
    allocator = CachingAllocator()
    allocator.malloc(1)
    allocator.malloc(513)
    assert (allocator.allocated, allocator.reserved) == (512 + 1024, 2 * MIB)


@pytest.mark.parametrize(
    ("size", "reserved", "allocated"),
    [
        (MIB, 2 * MIB, MIB),
        (MIB + 1, 20 * MIB, MIB + 512),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),  # one MiB left is not worth splitting
        (11 * MIB - 512, 12 * MIB, 11 * MIB - 512),
    ],
)
def test_segment_and_block_of_a_request(size: int, reserved: int, allocated: int) -> None:
    allocator = CachingAllocator()
    allocator.malloc(size)
    assert (allocator.reserved, allocator.allocated) == (reserved, allocated)


def test_freed_blocks_merge_and_are_used_again() -> None:
    allocator = CachingAllocator()
    blocks = [allocator.malloc(5 * MIB) for _ in range(4)]
    assert allocator.reserved == 20 * MIB
    for index in (1, 3, 2, 0):
        allocator.release(blocks[index])
    allocator.malloc(9 * MIB)
    allocator.malloc(9 * MIB)
    assert allocator.reserved == 20 * MIB


def test_full_card_gives_whole_segments_back_once_then_fails() -> None:
    allocator = CachingAllocator(64 * MIB)
    first = allocator.malloc(40 * MIB)
    allocator.release(first)
    allocator.malloc(60 * MIB)
    assert (allocator.reserved, allocator.retries) == (60 * MIB, 1)
    with pytest.raises(OutOfMemory) as caught:
        allocator.malloc(8 * MIB)
    assert caught.value.asked == 8 * MIB


def test_random_traffic_keeps_the_books() -> None:
    rng = random.Random(7)
    allocator = CachingAllocator()
    live: list[AllocatorBlock] = []
    for _ in range(2000):
        if live and rng.random() < 0.5:
            allocator.release(live.pop(rng.randrange(len(live))))
        else:
            live.append(allocator.malloc(int(2 ** rng.uniform(0, 25))))
        assert allocator.allocated == sum(block.size for block in live)
        assert allocator.allocated <= allocator.reserved
    spans = sorted((block.address, block.address + block.size) for block in live)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    for block in live:
        allocator.release(block)
    assert allocator.allocated == 0
