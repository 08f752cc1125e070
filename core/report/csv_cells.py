"""Cells of CSV files, for programs that take some texts for something else."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_cell(value: T) -> T | str:
    """A cell; text that a spreadsheet would run as a formula begins with an apostrophe.

    Such text can only be a name or a message from outside. Numbers stay as they are.
    """
    if not isinstance(value, str) or not value.startswith(FORMULA) or _is_number(value):
        return value
    return f"'{value}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
