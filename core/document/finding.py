"""One thing that may be said of the runs, with the cells that it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmprof.core.document.quotes import Quote, Sentence

Kind = Literal[
    "change",
    "pace",
    "memory",
    "growth",
    "rate",
    "products",
    "warm-up",
    "prediction",
    "unjudged",
    "wrong",
]


@dataclass(frozen=True)
class Finding:
    """One statement with the cells that it rests on; the greater its weight, the earlier.

    alone: of attention by itself, of which what is said comes after what is said of whole steps.
    """

    kind: Kind
    text: Sentence
    weight: float
    alone: bool = False

    @property
    def evidence(self) -> tuple[Quote, ...]:
        """The cells."""
        return tuple(each for each in self.text if isinstance(each, Quote))
