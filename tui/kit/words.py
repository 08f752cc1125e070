"""Texts cut at words: a figure or a name that is cut in the middle says another one."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

LONG_WORD = 24  # longer than any figure: such a word is cut where it must be
PART = " · "  # between the parts of a label


def cut_words(text: str, width: int, ellipsis: str) -> str:
    """The text if it fits, else as many whole words as do and an ellipsis.

    A lone or long name is cut where it must be, a number never.
    """
    if cell_len(text) <= width:
        return text
    kept = set_cell_size(text, max(0, width - cell_len(ellipsis))).rstrip()
    if not text[len(kept) :].startswith(" "):
        begun = kept.rfind(" ") + 1
        word = text[begun:].partition(" ")[0]
        if len(word) < LONG_WORD and (begun or word[:1].isdigit()):
            kept = kept[:begun]
    return kept.rstrip(" ·|,:;") + ellipsis if width > 0 else ""


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
