"""Rows of the largest allocations that are live at the peak."""

from __future__ import annotations

from llmprof.core.events import LiveAllocation, MemoryTimeline
from llmprof.core.predict.byte_levels import CATEGORIES
from llmprof.core.system.text import clean
from llmprof.tui.chart.scale import Scale, scale_for
from llmprof.tui.kit.roles import PHASE_ROLES
from llmprof.tui.kit.table_cells import TableCell, TableColumn, TableRow


def live_columns(unit: str) -> tuple[TableColumn, ...]:
    """Columns of the table; sizes are in `unit`."""
    return (
        TableColumn(f"Total {unit}", 9, "right"),
        TableColumn("Blocks", 6, "right", priority=2),
        TableColumn(f"Each {unit}", 9, "right", priority=3),
        TableColumn("%", 3, "right", priority=1),
        TableColumn("Category", 15),
        TableColumn("Made in", 9, priority=4),
        TableColumn("What", 18),
    )


def live_rows(event: MemoryTimeline) -> list[TableRow]:
    """The largest first, as they were recorded; keys are positions."""
    scale = scale_for("B", event.peak_bytes)
    return [
        TableRow(str(at), _live_cells(live, scale, event.peak_bytes))
        for at, live in enumerate(event.largest)
    ]


def _live_cells(live: LiveAllocation, scale: Scale, peak: int) -> tuple[TableCell, ...]:
    total = live.size * live.count
    share = 100 * total / peak if peak else 0.0
    category = live.category if live.category in CATEGORIES else "muted"
    return (
        TableCell(scale.figure(total), "title", total),
        TableCell(f"{live.count:,}", "text", live.count),
        TableCell(scale.figure(live.size), "text", live.size),
        TableCell(f"{share:.0f}", "muted", share),
        TableCell(clean(live.category, 20), category),
        TableCell(
            clean(live.phase, 20) or "before", live.phase if live.phase in PHASE_ROLES else "muted"
        ),
        TableCell(clean(live.what, 160)),
    )
