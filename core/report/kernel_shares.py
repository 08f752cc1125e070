"""Columns, cells and notes of the shares of a kernel's time."""

from __future__ import annotations

from llmprof.core import events as ev
from llmprof.core.events.kernel_rows import WHOLE_STEP
from llmprof.core.figures.profile_wholes import Wholes, work_word
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.state.view import RunView
from llmprof.core.system.numbers import format_number


def share_columns(source: str, part: str = WHOLE_STEP) -> tuple[Column, ...]:
    """Headings of share_cells(), with the part of the step that is 100 %."""
    busy = ("GPU-busy",) if source == "cuda" else ()
    wholes = (work_word(source), *busy, "profiled wall")
    return tuple(Column(f"Of {part} {whole}", "%") for whole in wholes)


def share_cells(total: float, wholes: Wholes, source: str) -> tuple[Cell, ...]:
    """Percent of each whole that there is for this source."""
    busy = (share_cell(total, wholes.busy),) if source == "cuda" else ()
    return (share_cell(total, wholes.work), *busy, share_cell(total, wholes.wall))


def shares_note(table: ev.KernelTable, wholes: Wholes) -> str:
    """What the shares are of, with the numbers."""
    steps = table.steps
    if table.source == "cpu":
        work = format_number(wholes.work / steps)
        return f"Op time is the sum of the ops' self times, {work} ms a step."
    work = format_number(wholes.work / steps)
    text = f"GPU time is the sum over all kernels and copies, {work} ms a step"
    if wholes.busy is None:
        return f"{text}."
    busy = format_number(wholes.busy / steps)
    busy = f"GPU-busy, {busy} ms, is the time in which at least one ran"
    over = share_cell(wholes.work, wholes.busy).value
    if over is None or over < 100.05:
        return f"{text}; {busy}."
    return f"{text}; {busy}: they overlapped, so that shares of it add up to {over:.1f} %."


def calls_cell(calls: int, steps: int) -> Cell:
    """Calls of one step: whole unless the steps differed."""
    return calls // steps if calls % steps == 0 else Figure(calls / steps, 0.1)


def share_cell(part: float, whole: float | None) -> Figure:
    """A share to a tenth of a percent; n/a of an unknown or empty whole."""
    return Figure(None if not whole else 100 * part / whole, 1.0)


def gemm_table(view: RunView) -> Table | None:
    """Matrix products by the op that launches them, beside what the model must have."""
    rows: list[tuple[Cell, ...]] = []
    for state in view.cases:
        for count in state.kernels.gemms if state.kernels else ():
            if not count.ops and not count.expected_per_step:
                continue
            per_gemm = None if count.kernels is None or not count.ops else count.kernels / count.ops
            verdict = {True: "as expected", False: "NOT as expected", None: "no formula"}
            rows.append(
                (
                    state.case.label,
                    count.phase,
                    calls_cell(count.ops, count.steps),
                    count.expected_per_step,
                    verdict[count.as_expected],
                    per_gemm,
                )
            )
    columns = (
        Column("Case", numeric=False),
        Column("Phase", numeric=False),
        Column("GEMM ops", "per step"),
        Column("Expected", "per step"),
        Column("Verdict", numeric=False),
        Column("Kernels per GEMM"),
    )
    notes = (
        "Eager with naive attention: 9L + 1 forward (7L + 1 linear, 2L attention), 18L + 2 backward"
        " for L layers. One op may launch two kernels (split-K).",
    )
    return Table("gemms", "Matrix products", columns, tuple(rows), notes) if rows else None
