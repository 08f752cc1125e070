"""Words for what is shown: text from outside made safe, counts with their nouns, times."""

from __future__ import annotations

import datetime
import unicodedata
from collections.abc import Sequence

SMALL = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip


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


def telling_line(text: str) -> str:
    """The line of an error that says what is wrong: its first, or, where that only leads to what
    follows, as a compiler's `at 2:13:` does, the first and the last.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    return f"{lines[0]} {lines[-1]}" if len(lines) > 1 and lines[0].endswith(":") else lines[0]


def spoken(words: Sequence[str], last: str = "and") -> str:
    """Words as a sentence lists them: a, b and c."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def cause(error: BaseException, limit: int = 200) -> str:
    """What went wrong, in one line for people: of an OSError the reason, then the file."""
    if not isinstance(error, OSError) or not error.strerror:
        return clean(str(error), limit)
    where = f": {error.filename}" if error.filename else ""
    return clean(f"{error.strerror}{where}", limit)


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun: 1 step, 12 steps, 2 processes."""
    if count != 1:
        noun = plural or noun + ("es" if noun[-1] in "sx" or noun.endswith(("ch", "sh")) else "s")
    return f"{count:,} {noun}"


def in_words(count: int) -> str:
    """A small count as a word: four; beyond twelve, many."""
    return SMALL[count] if count < len(SMALL) else "many"


def moment(wall_ns: int | None) -> str:
    """A point in time as date and time, UTC."""
    if wall_ns is None:
        return "at an unknown time"
    return f"{datetime.datetime.fromtimestamp(wall_ns / 1e9, datetime.UTC):%Y-%m-%d %H:%M} UTC"


def clock(seconds: float, *, tenths: bool = False) -> str:
    """A span of time as clocks show it: 0:08, 2:05, 1:02:05, 3 d 1:02:05.

    tenths: those of a second as well, of less than a minute.
    """
    if tenths and 0 <= seconds < 59.95:
        return f"0:{seconds:04.1f}"
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes}:{rest:02}"
    days, hours = divmod(hours, 24)
    return f"{f'{days:,} d ' if days else ''}{hours}:{minutes:02}:{rest:02}"


def duration(seconds: float) -> str:
    """A length of time in the unit a person would use: 45 s, 12 min, 3.4 h, 21 days."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    for unit, size in (("min", 60.0), ("h", 3600.0)):
        if seconds < 99.5 * size or (unit == "h" and seconds < 72 * size):
            value = seconds / size
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
    return f"{seconds / 86400:,.0f} days"
