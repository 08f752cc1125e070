"""Waiting in tests: for a condition, however long a busy machine takes; never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 60.0  # what takes longer does not come
LOOK_S = 0.01


def rest(seconds: float) -> None:
    """Let time pass where it is what is sampled, as between readings of a real card."""
    time.sleep(seconds)


def wait_for(
    condition: Callable[[], object],
    what: str | Callable[[], str] = "what was waited for",
    seconds: float = PATIENCE_S,
) -> None:
    """Return once a condition holds; fails with what did not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            missing = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {seconds:g} s: {missing}")
        time.sleep(LOOK_S)
