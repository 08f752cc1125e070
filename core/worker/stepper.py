"""What can be stepped and timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

Edge = Callable[[int], None]


class Stepper(Protocol):
    """Whatever can be stepped and timed."""

    def step(self, edge: Edge) -> Tensor | None:
        """Run one step, calling edge(0) before and edge(i) after its i-th phase."""
