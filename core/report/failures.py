"""Cases without figures, those that ran out of memory among them, and why: M06."""

from __future__ import annotations

from llmprof.core.report.case_groups import status_word
from llmprof.core.report.table import Cell, Column, Figure, Prose, Table
from llmprof.core.report.timing import MODEL, PARAMETERS_COLUMN, parameters_of
from llmprof.core.state.view import RunView
from llmprof.core.system.units import MIB


def failures(view: RunView) -> Table | None:
    """M06: what gave no figures, in which phase, and what to run instead.

    Modes of a model that share one reason share one row.
    """
    rows: dict[tuple[Cell, ...], list[str]] = {}
    for state in view.cases:
        failure = state.failure
        if failure is None:
            continue
        message: Cell = failure.message
        if failure.instead:
            message = Prose(f"{failure.message.replace('`', chr(39))}; try `{failure.instead}`")
        asked = failure.bytes_asked
        key = (
            state.case.model.name,
            parameters_of(state),
            status_word(state),
            failure.phase or "n/a",
            None if asked is None else Figure(asked / MIB, 10.0),
            message,
        )
        rows.setdefault(key, []).append(state.case.mode)
    columns = (
        MODEL,
        Column("Modes", numeric=False),
        PARAMETERS_COLUMN,
        Column("Status", numeric=False),
        Column("Phase", numeric=False),
        Column("Asked or needed", "MiB"),
        Column("Reason", numeric=False, sentences=True),
    )
    note = "OOM (predicted): not tried, since it needs more than is free."
    predicted = any(s.failure is not None and s.failure.predicted for s in view.cases)
    told = tuple((key[0], ", ".join(dict.fromkeys(m)), *key[1:]) for key, m in rows.items())
    return (
        Table("failures", "Without figures", columns, told, (note,) * predicted, number="M06")
        if rows
        else None
    )
