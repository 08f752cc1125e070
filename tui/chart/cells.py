"""Rows of styled text, and the characters that charts are made of."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

StyledRun = tuple[str, str]  # text, role
Row = list[StyledRun]


class Glyphs(msgspec.Struct, frozen=True):
    """Characters a chart is made of."""

    braille: bool = True
    axis: str = "│"
    tick: str = "┤"
    floor: str = "─"
    corner: str = "└"
    mark: str = "◆"
    shade: str = " "


UNICODE_GLYPHS = Glyphs()
ASCII_GLYPHS = Glyphs(False, "|", "+", "-", "+", "!", ":")


def join_runs(text: Sequence[str], roles: Sequence[str]) -> Row:
    """Neighbouring cells of one role joined."""
    out: Row = []
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or roles[at] != roles[start]:
            out.append(("".join(text[start:at]), roles[start]))
            start = at
    return out
