"""Bytes at one moment, by category: what memory is for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llmprof.core.spec.case import Case

PARAMETERS: Final = 0
GRADIENTS: Final = 1
OPTIMIZER: Final = 2
ACTIVATIONS: Final = 3
COPIES: Final = 4
TEMPORARIES: Final = 5
WORKSPACE: Final = 6
INPUTS: Final = 7
CATEGORIES: tuple[str, ...] = (
    "parameters",
    "gradients",
    "optimizer state",
    "activations",
    "autocast copies",
    "temporaries",
    "workspace",
    "inputs and buffers",
)


@dataclass(frozen=True, slots=True)
class ByteLevel:
    """Bytes at one moment: by category as requested, rounded to blocks, and large blocks."""

    live: tuple[int, ...]
    rounded: int
    large: int

    @property
    def requested(self) -> int:
        """All requested bytes."""
        return sum(self.live)

    def plus(self, other: ByteLevel, times: int = 1) -> ByteLevel:
        """This level raised by another, taken several times."""
        return ByteLevel(
            tuple(a + times * b for a, b in zip(self.live, other.live, strict=True)),
            self.rounded + times * other.rounded,
            self.large + times * other.large,
        )

    def minus(self, other: ByteLevel) -> ByteLevel:
        """The difference of two levels."""
        return self.plus(other, -1)


ZERO = ByteLevel((0,) * len(CATEGORIES), 0, 0)


def allocated_band(case: Case, peak: ByteLevel) -> tuple[int, int]:
    """Least and most allocated bytes at a peak."""
    return peak.rounded, peak.rounded + peak.large * (1 << 20)
