"""How steady each case was, and what gave no figures: M05 and M06."""

from __future__ import annotations

from llmprof.core.lint import Verdict
from llmprof.core.report.case_groups import axis_cells, status_word, varying_axes
from llmprof.core.report.sentences import mean_interval
from llmprof.core.report.subject import subject_of
from llmprof.core.report.table import Cell, Column, Figure, Prose, Table
from llmprof.core.report.timing import INTERVAL, MODEL, PARAMETERS_COLUMN, parameters_of
from llmprof.core.state.view import RunView
from llmprof.core.system.units import MIB


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
                *axis_cells(case, axes),
                total.n,
                Figure(total.mean, total.ci95),
                Figure(total.std, total.ci95),
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
        texts += [v.text.split(" (CV")[0].split(": the host")[0] for v in said if v.rule == rule]
    return "; ".join(dict.fromkeys(texts)) or "none"


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
        Column("Reason", numeric=False),
    )
    note = "OOM (predicted): not tried, since it needs more than is free."
    predicted = any(s.failure is not None and s.failure.predicted for s in view.cases)
    told = tuple((key[0], ", ".join(dict.fromkeys(m)), *key[1:]) for key, m in rows.items())
    return (
        Table("failures", "Without figures", columns, told, (note,) * predicted, number="M06")
        if rows
        else None
    )
