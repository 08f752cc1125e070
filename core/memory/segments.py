"""What an allocator has given out at one moment, by its segments: no history of frees is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmprof.core.memory.allocator_entries import PythonStack, Stacks, own_line, places
from llmprof.core.memory.live_blocks import LiveBlock

MOST_FRAMES = 10  # of a block's stack that are kept


def largest_in_segments(snapshot: Mapping[str, Any], device: int, limit: int) -> list[LiveBlock]:
    """The largest blocks that a snapshot has as given out, alike ones together, the most first.

    A block that was given out before the history began has no frames.
    """
    stacks = Stacks()
    found: dict[tuple[int, PythonStack], int] = {}
    for segment in snapshot["segments"]:
        if segment.get("device", device) != device:
            continue
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                at = stacks.add(places(block.get("frames", ()))[:MOST_FRAMES])
                stack = stacks.known[at] if at >= 0 else ()
                key = int(block.get("requested_size", block["size"])), stack
                found[key] = found.get(key, 0) + 1
    live = [
        LiveBlock(size, count, "", "", own_line(stack) or "unknown", stack)
        for (size, stack), count in found.items()
    ]
    return sorted(live, key=lambda each: (-each.total, each.what))[:limit]
