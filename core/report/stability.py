"""How steady each case was: M05."""

from __future__ import annotations

import re

from llmprof.core.lint import Verdict
from llmprof.core.report.case_groups import axis_cells, varying_axes
from llmprof.core.report.sentences import mean_interval
from llmprof.core.report.subject import subject_of
from llmprof.core.report.table import Cell, Column, Figure, Table, spread_figure
from llmprof.core.report.timing import INTERVAL, MODEL, PARAMETERS_COLUMN, parameters_of
from llmprof.core.state.view import RunView


def steadiness(view: RunView) -> Table | None:
    """M05: how steady each case was, with the verdicts on it."""
    axes = [axis for axis in varying_axes(view) if axis[0] not in ("context_length", "batch_size")]
    rows: list[tuple[Cell, ...]] = []
    said = subject_of(view).verdicts
    for state in view.cases:
        total = state.total
        if total is None or state.case.probe in ("kernels", "memory"):  # not timings
            continue
        case = state.case
        rows.append(
            (
                state.index + 1,
                case.model.name,
                case.mode,
                parameters_of(state),
                case.context_length,
                case.batch_size,
                *axis_cells(state, axes),
                total.n,
                Figure(total.mean, total.ci95),
                spread_figure(total.std, total.ci95),
                mean_interval(total),
                Figure(total.median, total.ci95),
                Figure(total.cv_percent, 1.0),
                verdict_cell(said[state.index]),
            )
        )
    columns = (
        Column("Case"),
        MODEL,
        Column("Mode", numeric=False),
        PARAMETERS_COLUMN,
        Column("Context", "tokens"),
        Column("Batch"),
        *(column for _, column in axes),
        Column("n"),
        Column("Mean", "ms"),
        Column("Std Dev", "ms"),
        INTERVAL,
        Column("Median", "ms"),
        Column("CV", "%"),
        Column("Verdict", numeric=False),
    )
    note = (
        "Whole steps, n of them measured; no step is dropped. Std Dev: standard deviation "
        "(ddof 1); the interval is the mean's (Student's t). CV: Std Dev over mean; "
        "very stable below 2 %, acceptable below 6 %."
    )
    return (
        Table("stability", "Stability", columns, tuple(rows), (note,), number="M05")
        if rows
        else None
    )


def verdict_cell(said: tuple[Verdict, ...]) -> str:
    """Errors whole, then spread and pace in short; the other checks have a table of their own."""
    texts = [v.text for v in said if v.level == "error"]
    for rule in ("stability", "launch-bound"):
        texts += [_short(v.text) for v in said if v.rule == rule]
    return "; ".join(dict.fromkeys(texts)) or "none"


def _short(text: str) -> str:
    """A verdict without its figures, which have columns or the table of checks."""
    shown = re.split(r" \(CV|: the host", text, maxsplit=1)[0]
    return re.sub(r", \d+ % of the step$", "", shown)
