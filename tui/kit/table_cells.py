"""What tables are made of: columns, cells, rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len

from llmprof.tui.kit.canvas import cut_words


@dataclass(frozen=True)
class TableColumn:
    """A heading with its unit, and the least width."""

    title: str
    width: int
    align: Literal["left", "right"] = "left"
    priority: int = 0  # where there is no room, columns of the highest number go first


@dataclass(frozen=True)
class TableCell:
    """Text, its role, what it is sorted by (its text when None), and fewer words for it."""

    text: str
    role: str = "text"
    sort: float | None = None
    short: str = ""  # shown where there is no room for the text

    def shown(self, width: int) -> str:
        """The text if it fits, else the fewer words if there are any."""
        return self.text if not self.short or cell_len(self.text) <= width else self.short


@dataclass(frozen=True)
class TableRow:
    """A row and the key by which it is known."""

    key: str
    cells: tuple[TableCell, ...]


def fit(text: str, width: int, align: str, ellipsis: str = "") -> str:
    """The text cut at a word, or padded, to a width."""
    text = cut_words(text, width, ellipsis)
    pad = " " * (width - cell_len(text))
    return pad + text if align == "right" else text + pad


def sortable(cell: TableCell) -> bool:
    """Whether a cell has a figure or a text to sort by."""
    return cell.sort is not None or (bool(cell.text) and cell.text != "–")


def sort_key(cell: TableCell) -> tuple[int, float, str]:
    """Figures before texts."""
    return (0, cell.sort, "") if cell.sort is not None else (1, 0.0, cell.text.casefold())
