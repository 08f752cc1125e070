"""What may be said of the two runs, above the tables: their names, and one line a finding."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas

MOST_LINES = 6


class ComparisonSaid(Canvas):
    """Lines of text, each with its role, folded to the width; as many as there is room for."""

    def __init__(self) -> None:
        super().__init__(id="compare-said")
        self._lines: tuple[tuple[str, str], ...] = ()

    def show(self, lines: Sequence[tuple[str, str]]) -> None:
        """Take lines of text and role."""
        self._lines = tuple(lines)
        self.styles.height = min(MOST_LINES, max(1, len(self._rows_of(max(20, self.size.width)))))
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """The folded lines; the last that there is room for says that there are more."""
        rows = self._rows_of(width)
        if len(rows) > height:
            rows = [*rows[: height - 1], [(f"and {len(rows) - height + 1} more lines", "muted")]]
        return rows

    def _rows_of(self, width: int) -> list[Row]:
        return [
            [(piece, role)]
            for text, role in self._lines
            for piece in textwrap.wrap(self.look.text(text), width) or [""]
        ]
