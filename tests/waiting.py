"""Waiting in tests: until a condition holds, however long a busy machine takes; never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 60.0  # what takes longer does not come
LOOK_S = 0.01


def wait_for(
    condition: Callable[[], object], what: str = "it", seconds: float = PATIENCE_S
) -> None:
    """Return once a condition holds; fails with what did not happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds:g} s"
        time.sleep(LOOK_S)
