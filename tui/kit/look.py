"""Characters the screen is made of: Unicode, or plain ASCII where the locale has no more."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from llmprof.tui.chart.cells import ASCII_GLYPHS, UNICODE_GLYPHS, Glyphs


class Look(msgspec.Struct, frozen=True):
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
    """Whether this process's locale, as it was asked for, writes UTF-8."""
    env = os.environ
    ctype = "" if _coerced() else env.get("LC_CTYPE")
    wanted = env.get("LC_ALL") or ctype or env.get("LANG") or "C"
    return wanted.partition(".")[2].partition("@")[0].lower().replace("-", "") == "utf8"


def _coerced() -> bool:
    """Whether Python put LC_CTYPE there itself: PEP 538 turns the C locale into C.UTF-8."""
    try:
        return b"\0LC_CTYPE=" not in b"\0" + Path("/proc/self/environ").read_bytes()
    except OSError:
        return False


def choose_look(ascii_only: bool | None = None) -> Look:
    """ASCII when asked for, or when nothing was asked for and the locale is not UTF-8."""
    plain = not is_utf8() if ascii_only is None else ascii_only
    return ASCII if plain else UNICODE
