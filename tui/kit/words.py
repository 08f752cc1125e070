"""Words of texts and parts of labels."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from llmprof.tui.kit.canvas import LONG_WORD

PART = " · "  # between the parts of a label


def longest_word(text: str) -> int:
    """Columns of the longest word that is never cut."""
    return min(LONG_WORD, max(map(cell_len, text.split()), default=0))


def common_parts(labels: Sequence[str]) -> tuple[str, ...]:
    """The parts that all of several labels share; none where there is but one label."""
    if len(labels) < 2:
        return ()
    first, *others = (label.split(PART) for label in labels)
    return tuple(part for part in first if all(part in other for other in others))


def without_parts(label: str, parts: Sequence[str]) -> str:
    """A label without some of its parts; whole where nothing else would be left."""
    return PART.join(part for part in label.split(PART) if part not in parts) or label
