"""Words of texts and parts of labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from llmprof.tui.kit.canvas import LONG_WORD, cut_words

PART = " · "  # between the parts of a label


def longest_word(text: str) -> int:
    """Columns of the longest word that is never cut."""
    return min(LONG_WORD, max(map(cell_len, text.split()), default=0))


def told_apart(texts: Sequence[str], width: int, ellipsis: str) -> dict[str, str]:
    """What stands for those of the texts that would look alike with their ends cut: beginning and
    end, with the middle left out.
    """
    alike = defaultdict[str, set[str]](set)
    for text in texts:
        if cell_len(text) > width:
            alike[cut_words(text, width, ellipsis)].add(text)
    unlike = (text for found in alike.values() if len(found) > 1 for text in found)
    return {text: _without_middle(text, width, ellipsis) for text in unlike}


def _without_middle(text: str, width: int, ellipsis: str) -> str:
    """Beginning and end of a text, more of the end, where names differ."""
    room = max(0, width - cell_len(ellipsis))
    begun = set_cell_size(text, room // 3)
    ended = set_cell_size(text[::-1], room - room // 3)[::-1]
    return f"{begun}{ellipsis}{ended}"


def common_parts(labels: Sequence[str]) -> tuple[str, ...]:
    """The parts that all of several labels share; none where there is but one label."""
    if len(labels) < 2:
        return ()
    first, *others = (label.split(PART) for label in labels)
    return tuple(part for part in first if all(part in other for other in others))


def without_parts(label: str, parts: Sequence[str]) -> str:
    """A label without some of its parts; whole where nothing else would be left."""
    return PART.join(part for part in label.split(PART) if part not in parts) or label
