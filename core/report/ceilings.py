"""What a calibration reached, beside what the card's maker publishes."""

from __future__ import annotations

from typing import cast

from llmprof.core.catalog.cards import match_device
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.spec.axes import Precision
from llmprof.core.state.view import RunView
from llmprof.core.system.numbers import as_given

COLUMNS = (
    Column("What", numeric=False),
    Column("Unit", numeric=False),
    Column("Reached"),
    Column("Published"),
    Column("Share", "%"),
)


def ceilings(view: RunView) -> Table | None:
    """One row a precision, and one for copies; None without a calibration case."""
    state = next((state for state in view.cases if state.ceilings is not None), None)
    if state is None or state.ceilings is None:
        return None
    card = None if view.environment is None else match_device(view.environment.device_name)
    rows: list[tuple[Cell, ...]] = []
    for precision, rate in state.ceilings.matmul_tflops.items():
        peak = None if card is None else card.peak(cast(Precision, precision))
        rows.append((f"{precision} matrix product", "TFLOP/s", Figure(rate), *_beside(rate, peak)))
    copy = state.ceilings.copy_gbs
    if copy is not None:
        bandwidth = None if card is None else card.bandwidth_gbs
        rows.append(("copy, read and written", "GB/s", Figure(copy), *_beside(copy, bandwidth)))
    notes = (
        "The best of several runs of about 0.1 s on random data: what can be reached, not what is "
        "usual. Published: dense peak and memory bandwidth of the card, where it is known.",
    )
    return Table("ceilings", "Ceilings of this device", COLUMNS, tuple(rows), notes)


def _beside(reached: float, published: float | None) -> tuple[Cell, Cell]:
    if not published:
        return None, None
    return as_given(published), Figure(100 * reached / published, 1.0)
