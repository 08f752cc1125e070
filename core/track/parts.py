"""What a stretch of a step was, told by what came after it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

# In the body of a step, nothing known to be going on: what follows says what it was.
GAP = ""
_FOLLOWED_BY = {"backward": "forward", "optimizer": "before"}

Mark = tuple[int, str, object]  # monotonic ns, the part that begins, the device's event


def labels(parts: Sequence[str]) -> list[str]:
    """A part for every stretch, gaps included.

    What led to a backward was forward (with the loss), what led to an optimizer's update was
    before it, what led to the step's end came after both; in a step that had neither it was
    forward. A user's phase within a gap leaves the rest of the gap as it is.
    """
    out = list(parts)
    waiting: list[int] = []
    trained = False
    for at, part in enumerate(parts):
        if part == GAP:
            waiting.append(at)
        elif part in _FOLLOWED_BY:
            for gap in waiting:
                out[gap] = _FOLLOWED_BY[part]
            waiting.clear()
            trained = True
    for gap in waiting:
        out[gap] = "after" if trained else "forward"
    return out


def current(parts: Sequence[str]) -> str:
    """The part that a step is in: of a gap, what it is taken for as long as nothing follows."""
    if parts[-1] != GAP:
        return parts[-1]
    before = next((part for part in reversed(parts) if part in _FOLLOWED_BY), None)
    return {None: "forward", "backward": "before", "optimizer": "after"}[before]


_labels = lru_cache(256)(labels)  # most steps of a loop are alike


def sums_us(marks: Sequence[Mark], end_ns: int) -> dict[str, int]:
    """Microseconds of each part from the first mark to the end, which they sum to exactly."""
    times, parts, _ = zip(*marks, strict=True)
    out: dict[str, int] = {}
    start = times[0] // 1000
    for name, t in zip(_labels(parts), (*times[1:], end_ns), strict=True):
        end = t // 1000
        out[name] = out.get(name, 0) + end - start
        start = end
    return out


def device_us(marks: Sequence[Mark], stretches_ms: Sequence[float]) -> dict[str, int]:
    """Microseconds of each part by the device's clock; a time for every mark's stretch."""
    names = _labels(tuple(part for _, part, _ in marks))
    out: dict[str, float] = {}
    for name, ms in zip(names, stretches_ms, strict=True):
        out[name] = out.get(name, 0.0) + max(0.0, ms)
    return {name: round(ms * 1000) for name, ms in out.items()}
