"""The parts of a training loop in words."""

from __future__ import annotations

PART_WORDS = {
    "between": "between steps",
    "input": "input wait",
    "forward": "forward + loss",
    "loss": "loss",
    "backward": "backward",
    "before": "before the optimizer",
    "optimizer": "optimizer",
    "after": "after the optimizer",
}


def part_words(name: str, *, apart: bool = False) -> str:
    """A part's name as it is shown; apart: the loss is told from the forward."""
    if name == "forward" and apart:
        return "forward"
    return PART_WORDS.get(name, name)


def place_words(name: str, *, apart: bool = False) -> str:
    """Where in a step that is: in a part, or before, between or after what is part of it."""
    words = part_words(name, apart=apart)
    return words if name in ("between", "before", "after") else f"in {words}"
