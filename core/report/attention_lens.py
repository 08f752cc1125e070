"""One layer's attention, stage by stage, against the card's ceilings."""

from __future__ import annotations

from llmprof.core import events as ev
from llmprof.core.catalog.cards import CardSpec, match_device
from llmprof.core.events.kernel_rows import LensRow
from llmprof.core.kernels.attention_stages import DIRECTIONS, softmax_ratio
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.state.view import CaseState, RunView


def lens_tables(view: RunView) -> list[Table]:
    """M26, M27: a table a profiled case."""
    name = view.environment.device_name if view.environment else ""
    card = match_device(name)
    return [
        lens_table(state, state.lens, card if state.lens.source == "cuda" else None)
        for state in view.cases
        if state.lens is not None
    ]


def lens_table(state: CaseState, lens: ev.AttentionLens, card: CardSpec | None) -> Table:
    """M26, M27 of one case; rates are against the card's dense peak and bandwidth."""
    columns = (
        Column("Direction", numeric=False),
        Column("Stage", numeric=False),
        Column("CPU range", "µs"),
        Column("GPU time" if lens.source == "cuda" else "Op time", "µs"),
        Column("Kernels" if lens.source == "cuda" else "Ops", "per step"),
        Column("Work", "GFLOP"),
        Column("Least traffic", "MB"),
        Column("Rate", "TFLOP/s"),
        Column("Of peak", "%"),
        Column("Bandwidth", "GB/s"),
        Column("Of bandwidth", "%"),
    )
    rows = tuple(_cells(state, row, card) for row in lens.rows)
    key = f"attention-lens-{state.index}"
    title = f"Attention of layer {lens.layer} in one profiled step: {state.case.label}"
    return Table(key, title, columns, rows, _notes(state, lens, card), number="M26")


def _cells(state: CaseState, row: LensRow, card: CardSpec | None) -> tuple[Cell, ...]:
    seconds = row.device_us * 1e-6
    rate = row.flops / seconds / 1e12 if seconds > 0 else None
    bandwidth = row.bytes / seconds / 1e9 if seconds > 0 else None
    return (
        row.direction,
        row.stage,
        row.cpu_us,
        row.device_us,
        Figure(row.kernels, 1.0),
        row.flops / 1e9,
        row.bytes / 1e6,
        rate,
        _of(rate, None if card is None else card.peak(state.case.precision)),
        bandwidth,
        _of(bandwidth, None if card is None else card.bandwidth_gbs),
    )


def _notes(state: CaseState, lens: ev.AttentionLens, card: CardSpec | None) -> tuple[str, ...]:
    notes = []
    for direction in DIRECTIONS:
        ratio = softmax_ratio(lens.rows, direction)
        if ratio is not None:
            time, flops = ratio
            notes.append(
                f"{direction.capitalize()}: softmax takes {time:.2f} × the time of both matrix"
                f" products and {flops:.4f} × their FLOPs (d_head {state.case.reference.head_dim})."
            )
    notes.append(
        "Least traffic reads each operand and writes each result once; a rate above the card's"
        " bandwidth means that the tensors stayed in its cache."
    )
    if card is not None:
        peak = card.peak(state.case.precision)
        named = "unknown" if peak is None else f"{peak:g} TFLOP/s ({state.case.precision}, dense)"
        notes.append(f"Ceilings of {card.name}: {named}, {card.bandwidth_gbs or 0:g} GB/s.")
    return tuple(notes)


def _of(value: float | None, ceiling: float | None) -> Figure:
    known = value is not None and ceiling is not None and ceiling > 0
    return Figure(100 * value / ceiling if known and value and ceiling else None, 0.1)
