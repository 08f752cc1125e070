"""The table of what was found of a training loop, and what to do about it."""

from __future__ import annotations

from llmprof.core.lint.loops import loop_verdicts
from llmprof.core.report.table import Cell, Column, Prose, Table
from llmprof.core.state.view import RunView

COLUMNS = (
    Column("Finding", numeric=False),
    Column("Seen", numeric=False),
    Column("To try", numeric=False),
    Column("The next run tells by", numeric=False),
)


def verdict_table(view: RunView) -> Table | None:
    """At most three rows; None where nothing was found."""
    several = len(view.loops) > 1
    rows: list[tuple[Cell, ...]] = [
        (
            f"{found.rule} (rank {found.rank})" if several else found.rule,
            Prose(found.finding),
            Prose(found.remedy),
            Prose(found.test),
        )
        for found in loop_verdicts(view)
    ]
    if not rows:
        return None
    note = "The first steps do not count: they warm up."
    return Table("loop-verdicts", "What holds the training up", COLUMNS, tuple(rows), (note,))
