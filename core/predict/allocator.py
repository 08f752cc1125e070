"""CUDA's caching allocator, replayed: which segments and blocks a sequence of requests takes.

Follows torch 2.11's c10/cuda/CUDACachingAllocator.cpp with default settings on one stream: best
fit by size, then address; 2 MiB segments for requests to 1 MiB, 20 MiB segments below 10 MiB,
multiples of 2 MiB above; a block is split when what remains is worth keeping; free neighbours
merge; when the card is full, segments that are free as a whole are given back once.
"""

from __future__ import annotations

from bisect import bisect_left, insort

BLOCK_BYTES = 512
SMALL = 1 << 20  # requests to this size come from the pool of small blocks
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
LARGE_REQUEST = 10 << 20  # requests from this size have segments of their own
SEGMENT_STEP = 2 << 20


class OutOfMemory(Exception):
    """The card is full; `asked` bytes could not be had."""

    def __init__(self, asked: int) -> None:
        super().__init__(f"{asked} bytes")
        self.asked = asked


class AllocatorBlock:
    """A stretch of a segment, in use or free."""

    __slots__ = ("address", "after", "before", "free", "pool", "size")

    def __init__(
        self, address: int, size: int, pool: list[tuple[int, int, AllocatorBlock]]
    ) -> None:
        self.address = address
        self.size = size
        self.pool = pool
        self.free = False
        self.before: AllocatorBlock | None = None
        self.after: AllocatorBlock | None = None


class CachingAllocator:
    """Bytes allocated (blocks in use) and reserved (segments), with their peaks."""

    def __init__(self, capacity: int | None = None) -> None:
        self.capacity = capacity
        self.allocated = 0
        self.reserved = 0
        self.allocated_peak = 0
        self.reserved_peak = 0
        self.retries = 0
        self._small: list[tuple[int, int, AllocatorBlock]] = []
        self._large: list[tuple[int, int, AllocatorBlock]] = []
        self._next_address = 0

    def malloc(self, size: int) -> AllocatorBlock:
        """A block for a request. Raises OutOfMemory when a capacity is set and does not do."""
        size = max(BLOCK_BYTES, -(-size // BLOCK_BYTES) * BLOCK_BYTES)
        pool = self._small if size <= SMALL else self._large
        at = bisect_left(pool, (size, -1))
        block = pool.pop(at)[2] if at < len(pool) else self._segment(size, pool)
        block.free = False
        rest = block.size - size
        if rest >= BLOCK_BYTES if pool is self._small else rest > SMALL:
            self._split(block, size)
        self.allocated += block.size
        self.allocated_peak = max(self.allocated_peak, self.allocated)
        return block

    def release(self, block: AllocatorBlock) -> None:
        """Free a block; it merges with free neighbours."""
        self.allocated -= block.size
        before, after = block.before, block.after
        if before is not None and before.free:
            self._take(before)
            before.size += block.size
            before.after = after
            if after is not None:
                after.before = before
            block = before
        if after is not None and after.free:
            self._take(after)
            block.size += after.size
            block.after = after.after
            if block.after is not None:
                block.after.before = block
        block.free = True
        insort(block.pool, (block.size, block.address, block))

    def reset_peaks(self) -> None:
        """Start new peaks from the present levels."""
        self.allocated_peak = self.allocated
        self.reserved_peak = self.reserved

    def _split(self, block: AllocatorBlock, size: int) -> None:
        rest = AllocatorBlock(block.address + size, block.size - size, block.pool)
        rest.before, rest.after = block, block.after
        if rest.after is not None:
            rest.after.before = rest
        block.after = rest
        block.size = size
        rest.free = True
        insort(rest.pool, (rest.size, rest.address, rest))

    def _segment(self, size: int, pool: list[tuple[int, int, AllocatorBlock]]) -> AllocatorBlock:
        if size <= SMALL:
            wanted = SMALL_SEGMENT
        elif size < LARGE_REQUEST:
            wanted = LARGE_SEGMENT
        else:
            wanted = -(-size // SEGMENT_STEP) * SEGMENT_STEP
        if self.capacity is not None and self.reserved + wanted > self.capacity:
            self.retries += 1
            self._give_back()
            if self.reserved + wanted > self.capacity:
                raise OutOfMemory(size)
        self.reserved += wanted
        self.reserved_peak = max(self.reserved_peak, self.reserved)
        block = AllocatorBlock(self._next_address, wanted, pool)
        self._next_address += wanted
        return block

    def _give_back(self) -> None:
        for pool in (self._small, self._large):
            kept = []
            for entry in pool:
                if entry[2].before is None and entry[2].after is None:
                    self.reserved -= entry[0]
                else:
                    kept.append(entry)
            pool[:] = kept

    def _take(self, block: AllocatorBlock) -> None:
        pool = block.pool
        del pool[bisect_left(pool, (block.size, block.address))]
