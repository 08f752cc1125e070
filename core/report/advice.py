"""What fits instead of a case that does not: rows of tables, wherever advice is given."""

from __future__ import annotations

from llmprof.core.predict.advice import advise
from llmprof.core.predict.fits import Room
from llmprof.core.report.table import Cell, Column, Figure, Prose, Table
from llmprof.core.spec.case import Case
from llmprof.core.system.units import GIB

ADVICE_COLUMNS = (
    Column("What fits", numeric=False),
    Column("Predicted peak", "GiB"),
    Column("Command", numeric=False),
)
ADVICE_NOTE = (
    "What costs a step least comes first. A predicted peak is of requested bytes; the rounding of "
    "the allocator and CUDA's context come on top and are allowed for."
)


def advice_cells(case: Case, room: Room) -> list[tuple[Cell, ...]]:
    """Cells of ADVICE_COLUMNS, one row for each thing to do; none where nothing fits."""
    return [
        (each.text, Figure(each.peak_bytes / GIB, 0.1), Prose(f"`{each.command}`"))
        for each in advise(case, room)
    ]


def advice_table(case: Case, room: Room, verdict: str) -> Table | None:
    """M13: what to change in a case that does not fit a card, the verdict in words below it.

    None where no change makes it fit.
    """
    rows = advice_cells(case, room)
    if not rows:
        return None
    title = f"{case.label} on {room.name}: what fits"
    return Table("advice", title, ADVICE_COLUMNS, tuple(rows), (verdict,), number="M13")
