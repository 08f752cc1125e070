"""The one line that a window below the smallest usable size shows."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas

LEAST_WIDTH, LEAST_HEIGHT = 60, 16


class TooSmall(Canvas):
    """Says how large the window must be."""

    DEFAULT_CSS = """
    TooSmall { display: none; height: 1fr; }
    """

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """One line, cut to the window."""
        return [[(f"too small: llmprof needs {LEAST_WIDTH}x{LEAST_HEIGHT}"[:width], "warn")]]
