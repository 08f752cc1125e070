"""What a view says while there is nothing to show: why, and the key and command that change it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading


@dataclass(frozen=True)
class Way:
    """What the key would do, in words that follow it; the same as a command; or why not.

    Empty while what is missing is on its way.
    """

    does: str = ""
    line: str = ""
    problem: str = ""


class HowTo(Canvas):
    """Why there is nothing, what there could be, the key that starts it, the command."""

    DEFAULT_CSS = """
    HowTo { height: 1fr; display: none; }
    """

    def __init__(self, title: str, what: str, *, id: str) -> None:
        super().__init__(id=id)
        self._title, self._what = title, what
        self._way = Way()
        self._note = ""

    def show(self, way: Way, note: str) -> None:
        """Take the way, and what the run in sight does."""
        self._way, self._note = way, note
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading, explanation, key, command."""
        way, room = self._way, max(20, min(width, 92))
        rows: list[Row] = [
            heading(self.look, width, self._title, self._note),
            [],
            *([(line, "text")] for line in textwrap.wrap(self._what, room)),
            [],
        ]
        if way.problem:
            return [*rows, [(f"the set-up pane holds nothing to run: {way.problem}", "warn")]]
        if not way.does:
            return rows
        lines = textwrap.wrap(way.line, room - 2, break_on_hyphens=False, subsequent_indent="  ")
        return [
            *rows,
            [("r", "key"), (f" {way.does}", "text")],
            [],
            [("or, without a screen", "muted")],
            *[[(f"  {line}", "text")] for line in lines],
        ]
