"""A table, and text, as Markdown."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace

from llmprof.core.report.table import Cell, Prose, Table, format_cell
from llmprof.core.system.text import clean

# An underscore between letters or digits means nothing to Markdown and stays readable, and so do
# an ampersand that begins no entity and a tilde that stands alone. Dollars are mathematics to many
# programs that show Markdown.
_SPECIAL = re.compile(r"([\\|*\[\]<>#$]|~(?=\S)|(?<=\S)~|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_]))")
_BEGINS_LIST = re.compile(r"([-+](?= |$)|\d{1,9}(?=[.)](?: |$)))")

WIDEST = 160  # characters of a line outside folds
MOST_SPLIT = 15  # rows of a table that is written in parts beside each other


def section(table: Table, *, any_width: bool = False) -> str:
    """A titled table, folded when it is long; one wider than a line is written in parts."""
    if any_width:
        grids = [grid(table)]
    else:
        grids = [grid(table, aligned=False)] if table.folded else _within_a_line(table)
    body = "\n\n".join([*(grids or [grid(table, aligned=False)]), *_notes(table.notes)])
    if not grids and _reads_as_list(table):
        return "\n\n".join((f"## {escape(table.title)}", _list(table), *_notes(table.notes)))
    if grids and not table.folded:
        return f"## {escape(table.title)}\n\n{body}"
    title = _html(table.title)
    return f"<details>\n<summary>{title}</summary>\n\n{body}\n\n</details>"


def _reads_as_list(table: Table) -> bool:
    """Whether it is short and has a sentence that no line of a table has room for."""
    cells = (cell for row in table.rows for cell in row)
    sentences = any(column.sentences for column in table.columns) or any(
        isinstance(cell, Prose) for cell in cells
    )
    return len(table.rows) <= MOST_SPLIT and sentences


def _list(table: Table) -> str:
    """A row as a point of a list, with a point below it for each of its other cells."""
    heads = [escape(column.heading) for column in table.columns]
    lines: list[str] = []
    for row in table.rows:
        first, *others = (escape_cell(cell) for cell in row)
        lines.append(wrapped(f"- {heads[0]}: **{first}**", "  "))
        pairs = zip(heads[1:], others, strict=True)
        lines += [wrapped(f"  - {head}: {text}", "    ") for head, text in pairs if text]
    return "\n".join(lines)


def _within_a_line(table: Table) -> list[str]:
    """The table as one grid, or a short one as several, none wider than a line; else nothing."""
    whole = _narrowest(table)
    if _width(whole) <= WIDEST:
        return [whole]
    if len(table.rows) > MOST_SPLIT:
        return []
    labels = _labels(table)
    parts: list[list[int]] = []
    for at in range(labels, len(table.columns)):
        if parts and _width(_narrowest(_part(table, [*parts[-1], at]))) <= WIDEST:
            parts[-1].append(at)
        else:
            parts.append([*range(labels), at])
    grids = [_narrowest(_part(table, part)) for part in parts]
    return grids if all(_width(text) <= WIDEST for text in grids) else []


def _labels(table: Table) -> int:
    """How many leading columns each part repeats: those before the figures, or until rows differ.

    A part whose rows read alike would not say which row a figure is of.
    """
    least = next((at for at, each in enumerate(table.columns) if each.numeric), 0) or 1
    apart = (
        at
        for at in range(least, len(table.columns))
        if len({tuple(map(format_cell, row[:at])) for row in table.rows}) == len(table.rows)
    )
    return next(apart, least)


def _narrowest(table: Table) -> str:
    """Aligned where that fits into a line."""
    text = grid(table)
    return text if _width(text) <= WIDEST else grid(table, aligned=False)


def _width(text: str) -> int:
    return max(map(len, text.split("\n")))


def _part(table: Table, columns: Sequence[int]) -> Table:
    return replace(
        table,
        columns=tuple(table.columns[at] for at in columns),
        rows=tuple(tuple(row[at] for at in columns) for row in table.rows),
    )


def grid(table: Table, *, aligned: bool = True) -> str:
    """The table itself; aligned so that it also reads well as plain text."""
    heads = [escape(column.heading) for column in table.columns]
    rows = [[escape_cell(cell) for cell in row] for row in table.rows]
    widths = [
        max(3, len(head), *(len(row[i]) for row in rows)) if rows else max(3, len(head))
        for i, head in enumerate(heads)
    ]
    if not aligned:
        widths = [3] * len(heads)
    numeric = [column.numeric for column in table.columns]
    rule = [("-" * (w - 1) + ":") if n else "-" * w for w, n in zip(widths, numeric, strict=True)]
    lines = [_line(heads, widths, numeric), "| " + " | ".join(rule) + " |"]
    lines += [_line(row, widths, numeric) for row in rows]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Text from outside as one line that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", clean(text)).replace("`", "\\`")


def escape_text(text: str) -> str:
    """A sentence that may hold `code`: spans stay, all else is escaped, bars never end a cell."""
    pieces = clean(text, 2000).split("`")
    if len(pieces) % 2 == 0:  # an odd backtick: no spans
        return escape(text)
    return "`".join(
        _SPECIAL.sub(r"\\\1", piece) if i % 2 == 0 else piece.replace("|", "\\|")
        for i, piece in enumerate(pieces)
    )


def escape_cell(cell: Cell) -> str:
    """A cell as Markdown."""
    text = format_cell(cell)
    if isinstance(cell, Prose):
        return escape_text(text)
    return escape(text) if isinstance(cell, str) else text


def wrapped(text: str, indent: str = "") -> str:
    """Markdown text in lines of at most WIDEST characters, none of which begins a list."""
    lines = textwrap.wrap(
        text, WIDEST, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join([*lines[:1], *(indent + _no_list(line[len(indent) :]) for line in lines[1:])])


def _notes(notes: Sequence[str]) -> list[str]:
    """One note as a paragraph, several as a list; a name that begins one begins no other list."""
    texts = [_no_list(escape_cell(note)) for note in notes]
    if len(texts) > 1:
        return ["\n".join(wrapped(f"- {text}", "  ") for text in texts)]
    return [wrapped(text) for text in texts]


def _no_list(text: str) -> str:
    found = _BEGINS_LIST.match(text)
    if found is None:
        return text
    at = 0 if found[0] in "-+" else found.end()
    return f"{text[:at]}\\{text[at:]}"


def code(text: str) -> str:
    """Text as a code span, whatever backticks it holds."""
    line = clean(text, 2000)
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if "`" in line else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _line(cells: list[str], widths: list[int], numeric: list[bool]) -> str:
    padded = (
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    )
    return "| " + " | ".join(padded) + " |"


def _html(text: str) -> str:
    safe = clean(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return safe.replace("$", "&#36;")
