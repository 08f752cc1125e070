"""Characters the screen is made of: Unicode, or plain ASCII where the locale has no more."""

from __future__ import annotations

import locale
import os
from dataclasses import dataclass

from llmprof.tui.chart.plot import ASCII_GLYPHS, UNICODE_GLYPHS, Glyphs


@dataclass(frozen=True)
class Look:
    """One set of glyphs."""

    ascii: bool = False
    chart: Glyphs = UNICODE_GLYPHS
    rule: str = "─"
    on: str = "●"
    off: str = "○"
    cursor: str = "▸"
    dot: str = "·"
    bar: tuple[str, str] = ("━", "─")
    spark: str = "▁▂▃▄▅▆▇█"
    plus_minus: str = "±"
    dash: str = "–"
    ellipsis: str = "…"
    ok: str = "✓"
    bad: str = "✗"
    running: str = "▶"
    pending: str = "·"
    warn: str = "!"
    up: str = "▲"
    down: str = "▼"
    interval: tuple[str, str, str, str] = ("├", "─", "●", "┤")

    def text(self, text: str) -> str:
        """The text with what ASCII lacks put in other words; unchanged in Unicode."""
        if not self.ascii or text.isascii():
            return text
        return text.translate(_PLAIN).encode("ascii", "replace").decode()


UNICODE = Look()
ASCII = Look(
    ascii=True,
    chart=ASCII_GLYPHS,
    rule="-",
    on="*",
    off=".",
    cursor=">",
    dot="|",
    bar=("=", "-"),
    spark="_.-=+*#",
    plus_minus="+-",
    dash="-",
    ellipsis="~",
    ok="+",
    bad="x",
    running=">",
    pending=".",
    up="^",
    down="v",
    interval=("[", "-", "o", "]"),
)
_PLAIN = str.maketrans(
    {
        "±": "+-", "×": "x", "·": "|", "–": "-", "…": "~", "µ": "u", "°": "deg", "−": "-",
        "●": "*", "○": ".", "▸": ">", "✓": "ok", "✗": "x", "│": "|", "─": "-", "↑": "^",
        "↓": "v", "←": "<", "→": ">", "≤": "<=", "≥": ">=", "—": "-", "’": "'", "⏎": "enter",
        "\u202f": " ", "\u00a0": " ",
    }
)  # fmt: skip


def is_utf8() -> bool:
    """Whether this process's locale writes UTF-8."""
    wanted = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or ""
    if wanted in ("", "C", "POSIX"):
        # Python turns UTF-8 mode on for the C locale; the terminal was still not promised any.
        return False
    encoding = wanted.partition(".")[2].partition("@")[0] or locale.getencoding()
    return encoding.lower().replace("-", "") == "utf8"


def choose_look(ascii_only: bool | None = None) -> Look:
    """ASCII when asked for, or when nothing was asked for and the locale is not UTF-8."""
    plain = not is_utf8() if ascii_only is None else ascii_only
    return ASCII if plain else UNICODE
