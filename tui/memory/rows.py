"""Rows of the largest allocations that are live at the peak, and one of them in full."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from llmprof.core.events import LiveAllocation, MemoryTimeline
from llmprof.core.memory.allocator_entries import own_frame
from llmprof.core.predict.byte_levels import CATEGORIES
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.chart.scale import Scale, scale_for
from llmprof.tui.kernels.rows import PHASE_ROLES
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.format import size
from llmprof.tui.kit.table_cells import Cell, TableColumn, TableRow


def columns(unit: str) -> tuple[TableColumn, ...]:
    """Columns of the table; sizes are in `unit`."""
    return (
        TableColumn(f"Total {unit}", 9, "right"),
        TableColumn("Blocks", 6, "right", priority=2),
        TableColumn(f"Each {unit}", 9, "right", priority=3),
        TableColumn("%", 3, "right", priority=1),
        TableColumn("Category", 15),
        TableColumn("Made in", 9, priority=4),
        TableColumn("What", 18, flexible=True),
    )


def live_rows(event: MemoryTimeline) -> list[TableRow]:
    """The largest first, as they were recorded; keys are positions."""
    scale = scale_for("B", event.peak_bytes)
    return [
        TableRow(str(at), _cells(live, scale, event.peak_bytes))
        for at, live in enumerate(event.largest)
    ]


def _cells(live: LiveAllocation, scale: Scale, peak: int) -> tuple[Cell, ...]:
    total = live.size * live.count
    share = 100 * total / peak if peak else 0.0
    category = live.category if live.category in CATEGORIES else "muted"
    return (
        Cell(scale.figure(total), "title", total),
        Cell(f"{live.count:,}", "text", live.count),
        Cell(scale.figure(live.size), "text", live.size),
        Cell(f"{share:.0f}", "muted", share),
        Cell(clean(live.category, 20), category),
        Cell(
            clean(live.phase, 20) or "before", live.phase if live.phase in PHASE_ROLES else "muted"
        ),
        Cell(clean(live.what, 160)),
    )


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
        each = size(live.size)
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
