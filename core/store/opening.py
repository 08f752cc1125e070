"""A journal's first and last line, read alone: when a run began, and whether it has ended."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

import msgspec

from llmprof.core.system.boot import this_boot

MOST_BYTES = 4096  # of a line that is looked for


class _Opening(msgspec.Struct):
    """What is wanted of a Segment: all events, for which a list has no use, take long to load."""

    kind: Literal["Segment"]
    t: int
    wall_ns: int
    boot_id: str


class _Ending(msgspec.Struct):
    kind: Literal["RunDone", "LoopDone"]


_opening = msgspec.json.Decoder(_Opening)
_ending = msgspec.json.Decoder(_Ending)


def opened_at(journal: Path) -> int | None:
    """Nanoseconds since the epoch at which a run began; None for a journal that has not begun.

    Of this boot, what the monotonic clock says counts where the wall clock has been set back
    since, so that runs keep their order.
    """
    try:
        with journal.open("rb") as file:
            segment = _opening.decode(file.readline(MOST_BYTES))
    except (OSError, msgspec.DecodeError, ValueError):
        return None
    if not this_boot(segment.boot_id):
        return segment.wall_ns
    return min(segment.wall_ns, time.time_ns() - (time.monotonic_ns() - segment.t))


def ended(journal: Path) -> bool:
    """Whether a journal's last line is an engine's last word. Raises OSError."""
    with journal.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_BYTES))
        lines = file.read().split(b"\n")
    try:
        _ending.decode(lines[-2] if len(lines) > 1 else b"")
    except (msgspec.DecodeError, ValueError):
        return False
    return True
