"""Text from outside, made safe to show."""

from __future__ import annotations

import unicodedata


def clean(text: str, limit: int = 500) -> str:
    """One printable line: control and format characters gone, blanks folded, cut at `limit`."""
    kept = (
        " " if char in "\n\r\t" else char
        for char in text[: 4 * limit]
        if char in "\n\r\t"
        or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    )
    line = " ".join("".join(kept).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
