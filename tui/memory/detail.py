"""One allocation in full, with the lines of code that led to it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from llmprof.core.events import LiveAllocation
from llmprof.core.memory.allocator_entries import own_frame
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.format import bytes_text


class AllocationDetail(Canvas):
    """The allocation under the table's cursor in full, with the lines that led to it."""

    DEFAULT_CSS = """
    AllocationDetail { height: 3; }
    """

    def __init__(self) -> None:
        super().__init__(id="allocation-detail")
        self._live: LiveAllocation | None = None

    def show(self, live: LiveAllocation | None) -> None:
        """Take an allocation."""
        self._live = live
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """What it is, then where it was made."""
        live = self._live
        if live is None:
            return []
        each = bytes_text(live.size)
        what = each if live.count == 1 else f"{live.count:,} blocks of {each}"
        made = f"made in {clean(live.phase, 20)}" if live.phase else "there before the steps"
        title = heading(
            self.look, width, "Allocation", f"{what}, {clean(live.category, 20)}, {made}"
        )
        lines = textwrap.wrap(clean(self.look.text(_chain(live)), 400), max(10, width))
        return [title, *([(line, "text")] for line in lines)]


def _chain(live: LiveAllocation) -> str:
    """What it is, or from the line that made it out through its callers, torch's left out."""
    own = [frame.rsplit("/", 1)[-1] for frame in live.stack if own_frame((frame,)) is not None]
    if not own:
        return live.what
    named = [] if own[0] == live.what else [live.what]
    return " ← ".join([*named, *own])
