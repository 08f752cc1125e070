"""What can be stepped and timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

Edge = Callable[[int], None]


class Stepper(Protocol):
    """Whatever can be stepped and timed."""

    resume: Callable[[], None]  # to be called where a phase begins later than at its edge

    def step(self, edge: Edge) -> Tensor | None:
        """Run one step, calling edge(0) before and edge(i) after its i-th phase."""
