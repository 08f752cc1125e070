"""What the writer's thread reads of the process at every beat, without asking the training's."""

from __future__ import annotations

import linecache
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
WAITS = re.compile(r"\.(item|tolist|cpu|numpy|synchronize|nonzero)\(|\b(float|int|bool)\(")
MOST_LOOKED_UP = 1000  # places of which the line is known


def rss_bytes() -> int | None:
    """Memory of this process that lies in RAM."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return None


def compiled() -> tuple[int | None, float]:
    """How many functions torch.compile has compiled so far, and the seconds that it took."""
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    try:
        frames = int(dynamo.counters["frames"]["ok"])
        return frames, dynamo.cumulative_time_spent_ns["entire_frame_compile"] / 1e9
    except (AttributeError, KeyError, TypeError, ValueError):
        return None, 0.0


class Looks:
    """Looks where the training thread is: how often in a call that waits for the card.

    The line that it is on is read, for a call that waits is C and leaves no frame of its own.
    """

    def __init__(self) -> None:
        self.count = 0
        self.blocked: Counter[str] = Counter()  # by place and call
        self._known: dict[tuple[str, int], str] = {}

    def look(self, thread: int) -> None:
        """One look; code within torch is not looked into."""
        frame = sys._current_frames().get(thread)
        if frame is None:
            return
        self.count += 1
        place = frame.f_code.co_filename, frame.f_lineno
        del frame
        call = self._known.get(place)
        if call is None:
            call = self._call_at(*place)
            if len(self._known) < MOST_LOOKED_UP:
                self._known[place] = call
        if call:
            self.blocked[f"{Path(place[0]).name}:{place[1]} ({call})"] += 1

    @property
    def most(self) -> str:
        """Where it was blocked most often; "" where it never was."""
        return self.blocked.most_common(1)[0][0][:200] if self.blocked else ""

    @staticmethod
    def _call_at(file: str, line: int) -> str:
        if f"{os.sep}torch{os.sep}" in file:
            return ""
        found = WAITS.search(linecache.getline(file, line))
        return "" if found is None else f"{found[1] or found[2]}()"
