"""Matrix products counted by the op that launches them."""

from __future__ import annotations

from llmprof.core.report.kernel_shares import calls_cell
from llmprof.core.report.table import Cell, Column, Table
from llmprof.core.state.view import RunView


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
