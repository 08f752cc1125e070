"""What a command prints: tables fitted to a terminal, or Markdown where a program reads it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from llmprof.cli.streams import put
from llmprof.core.report.markdown_table import grid
from llmprof.core.report.table import Table


def on_terminal() -> bool:
    """Whether standard output is read by a person rather than by a program."""
    return sys.stdout is not None and sys.stdout.isatty()


def put_page(parts: Sequence[Table | str], markdown: str) -> None:
    """Show tables and sentences to a person; to a program give them as Markdown."""
    if not on_terminal():
        put(markdown)
        return
    from llmprof.cli.terminal_tables import page_text, show_text  # a program needs neither

    show_text(partial(page_text, parts))


def put_list(table: Table, *notes: str) -> None:
    """Print a table, and sentences below it, that are all of a command's answer."""
    put_page([table, *notes], "\n\n".join([grid(table), *notes]))
