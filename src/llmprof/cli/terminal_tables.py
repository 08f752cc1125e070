"""Tables as a person reads them on a terminal: fitted to its width, paged where they are long."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len

from llmprof.cli.streams import put
from llmprof.core.report.markdown import facts, title_of
from llmprof.core.report.registry import tables
from llmprof.core.report.table import Column, Prose, Table, format_cell
from llmprof.core.state.view import RunView
from llmprof.core.system.text import clean
from llmprof.tui.kit.look import choose_look

GAP = "  "
WIDEST_TEXT = 40  # columns of a column of words, which are wrapped
MOST_FOLDED = 12  # rows of a long table; the rest is in exports
JOINED = "\N{NO-BREAK SPACE}"
_ESCAPED = re.compile(r"\\(.)")


def report_text(view: RunView, width: int) -> str:
    """A whole run: what it was measured on, then its tables."""
    parts = [_strong(clean(title_of(view))), _facts(view, width)]
    parts += [table_text(table, width) for table in tables(view)]
    return "\n\n".join(parts) + "\n"


def table_text(table: Table, width: int) -> str:
    """A titled table. Columns that do not fit follow below, after those that name the row."""
    rows = table.rows[:MOST_FOLDED] if table.folded else table.rows
    texts = [[_plain(format_cell(cell), cell) for cell in row] for row in rows]
    parts = [_strong(table.title)] if table.title else []
    for kept in blocks(table.columns, texts, width):
        parts.append("\n".join(_grid(table.columns, texts, kept, width)))
    if len(rows) < len(table.rows):
        parts.append(f"and {len(table.rows) - len(rows):,} more rows: --export FILE.csv has all")
    parts += ["\n".join(textwrap.wrap(_plain(note, Prose(note)), width)) for note in table.notes]
    return "\n\n".join(parts)


def blocks(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[list[int]]:
    """Columns in groups that fit a width: each begins with the words that name a row."""
    widths = _widths(columns, rows)
    names = [at for at, column in enumerate(columns) if not column.numeric]
    lead = [at for at in names if at < len(names) and at == names.index(at)]
    lead = lead if sum(widths[at] + len(GAP) for at in lead) <= 2 * width // 3 else lead[:1]
    rest = [at for at in range(len(columns)) if at not in lead]
    groups: list[list[int]] = [[*lead]]
    for at in rest:
        size = sum(widths[each] + len(GAP) for each in (*groups[-1], at)) - len(GAP)
        if size > width and len(groups[-1]) > len(lead):
            groups.append([*lead])
        groups[-1].append(at)
    return groups


def page_text(parts: Sequence[Table | str], width: int) -> str:
    """Tables and sentences below each other; code in a sentence loses its backticks."""
    return "\n\n".join(
        table_text(part, width)
        if isinstance(part, Table)
        else "\n".join(textwrap.fill(line, width) for line in _plain_lines(part))
        for part in parts
    )


def show_text(text: Callable[[int], str]) -> None:
    """Write a text that is made for a width; through a pager where it is longer than the screen."""
    size = shutil.get_terminal_size()
    said = choose_look().text
    lines = [said(line) for line in text(size.columns).splitlines()]
    body = "\n".join(lines) + "\n"
    if len(lines) < size.lines or not _paged(body):
        put(body, end="")


def _paged(text: str) -> bool:
    """Hand a text to $PAGER, or to less; whether one took it."""
    command = shlex.split(os.environ.get("PAGER", "") or "less")
    if not sys.stdin.isatty() or not command or shutil.which(command[0]) is None:
        return False
    sys.stdout.flush()
    env = {"LESS": "FRX", **os.environ}
    with contextlib.suppress(BrokenPipeError):
        subprocess.run(command, input=text.encode(errors="replace"), env=env, check=False)
    return True


def _facts(view: RunView, width: int) -> str:
    found = [(name, _plain(_ESCAPED.sub(r"\1", text), Prose(text))) for name, text in facts(view)]
    left = max((len(name) for name, _ in found), default=0) + len(GAP)
    lines: list[str] = []
    for name, text in found:
        wrapped = textwrap.wrap(text.replace("**", ""), max(20, width - left)) or [""]
        lines.append(f"{name:<{left}}{wrapped[0]}")
        lines += [" " * left + line for line in wrapped[1:]]
    return "\n".join(lines)


def _grid(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], kept: Sequence[int], width: int
) -> Iterable[str]:
    widths = _fitted(columns, rows, kept, width)
    heads = [_heading(columns[at]) for at in kept]
    yield from _line(heads, widths, [columns[at].numeric for at in kept])
    yield GAP.join("─" * size for size in widths)
    for row in rows:
        yield from _line([row[at] for at in kept], widths, [columns[at].numeric for at in kept])


def _fitted(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], kept: Sequence[int], width: int
) -> list[int]:
    """Widths of some columns; words give way, and are wrapped, before a figure would be cut."""
    known = _widths(columns, rows)
    widths = [known[at] for at in kept]
    over = sum(widths) + len(GAP) * (len(widths) - 1) - width
    for at, column in enumerate(kept):
        if over > 0 and not columns[column].numeric:
            spare = min(over, max(0, widths[at] - 12))
            widths[at] -= spare
            over -= spare
    return widths


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    widths = []
    for at, column in enumerate(columns):
        words = max(map(len, _heading(column).split(" ")), default=0)
        cells = max((cell_len(row[at]) for row in rows), default=0)
        if column.numeric:
            widths.append(max(min(len(column.heading), max(words, cells)), cells, words))
        else:
            widths.append(min(WIDEST_TEXT, max(cells, len(column.heading))))
    return widths


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> Iterable[str]:
    wrapped = [textwrap.wrap(cell, size) or [""] for cell, size in zip(cells, widths, strict=True)]
    for y in range(max(map(len, wrapped))):
        parts = [lines[y] if y < len(lines) else "" for lines in wrapped]
        padded = [
            part.rjust(size) if number else part.ljust(size)
            for part, size, number in zip(parts, widths, right, strict=True)
        ]
        yield GAP.join(padded).rstrip().replace(JOINED, " ")


def _heading(column: Column) -> str:
    """A heading whose percent signs stay with what stands before them where it is wrapped."""
    return column.heading.replace(" %", f"{JOINED}%")


def _plain(text: str, cell: object) -> str:
    """A cell as words: of our own text without the backticks around code."""
    line = clean(text, 2000)
    return line.replace("`", "") if isinstance(cell, Prose) else line


def _plain_lines(text: str) -> list[str]:
    return [_plain(line, Prose(line)) for line in text.splitlines()]


def _strong(text: str) -> str:
    return text if os.environ.get("NO_COLOR") else f"\x1b[1m{text}\x1b[0m"
