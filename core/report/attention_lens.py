"""One layer's attention, stage by stage, against the card's ceilings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from llmprof.core import events as ev
from llmprof.core.catalog.cards import CardSpec, match_device
from llmprof.core.events.kernel_rows import LensRow
from llmprof.core.kernels.attention_stages import ATTENTION_MODULE, DIRECTIONS, softmax_ratio
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.numbers import as_given, significant
from llmprof.core.system.text import counted


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
    rows = tuple(_cells(state, row, card) for row in with_totals(lens.rows, state))
    key = f"attention-lens-{state.index}"
    title = f"Attention of layer {lens.layer} in one profiled step: {state.case.label}"
    return Table(key, title, columns, rows, _notes(state, lens, card), number="M26")


@dataclass(frozen=True)
class StageTime:
    """A stage, all stages of a direction, or their mean over layers, of one step."""

    direction: str
    stage: str
    cpu_us: float | None
    device_us: float
    kernels: float | None
    flops: float
    bytes: float


def with_totals(rows: Iterable[LensRow], state: CaseState) -> Iterator[StageTime]:
    """The stages of each direction, then their total, then the mean of such a total over layers."""
    listed = list(rows)
    for direction in DIRECTIONS:
        mine = [
            StageTime(r.direction, r.stage, r.cpu_us, r.device_us, r.kernels, r.flops, r.bytes)
            for r in listed
            if r.direction == direction
        ]
        if not mine:
            continue
        cpu = [row.cpu_us for row in mine if row.cpu_us is not None]
        total = StageTime(
            direction,
            "total",
            math.fsum(cpu) if cpu else None,
            math.fsum(row.device_us for row in mine),
            math.fsum(row.kernels or 0.0 for row in mine),
            math.fsum(row.flops for row in mine),
            math.fsum(row.bytes for row in mine),
        )
        yield from (*mine, total)
        mean_us = _mean_over_layers(state, direction)
        if mean_us is not None:
            name = f"mean of {counted(state.case.reference.num_layers, 'layer')}"
            yield replace(total, stage=name, cpu_us=None, device_us=mean_us, kernels=None)


def _mean_over_layers(state: CaseState, direction: str) -> float | None:
    """Microseconds of one layer's attention: the module's in every layer, over their number."""
    if state.kernels is None:
        return None
    found = [
        row.total_ms
        for row in state.kernels.modules
        if (row.phase, row.label) == (direction, ATTENTION_MODULE)
    ]
    steps, layers = state.kernels.steps, state.case.reference.num_layers
    return 1e3 * math.fsum(found) / steps / layers if found else None


def _cells(state: CaseState, row: StageTime, card: CardSpec | None) -> tuple[Cell, ...]:
    seconds = row.device_us * 1e-6
    rate = row.flops / seconds / 1e12 if seconds > 0 else None
    bandwidth = row.bytes / seconds / 1e9 if seconds > 0 else None
    return (
        row.direction,
        row.stage,
        row.cpu_us,
        row.device_us,
        None if row.kernels is None else Figure(row.kernels, 1.0),
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
                f"{direction.capitalize()}: softmax takes {significant(time, 2)} × the time of both"
                f" matrix products for {significant(flops, 2)} × their FLOPs (d_head"
                f" {state.case.reference.head_dim})."
            )
    layers = state.case.reference.num_layers
    notes.append(
        f"Layer {lens.layer} of {layers}, counted from 0; its stages are means of one step. CPU"
        " range: how long the host spends in the stage, which has no range in the backward."
        " Least traffic reads each operand and writes each result once; a rate above the card's"
        " bandwidth means that the tensors stayed in its cache. The mean over layers is the time of"
        " all kernels and copies of their attention, divided by the number of layers."
    )
    if card is not None:
        peak = card.peak(state.case.precision)
        rate = (
            "unknown"
            if peak is None
            else f"{as_given(peak)} TFLOP/s ({state.case.precision}, dense)"
        )
        bandwidth = card.bandwidth_gbs
        moved = "bandwidth unknown" if bandwidth is None else f"{as_given(bandwidth)} GB/s"
        notes.append(f"Ceilings of {card.name}: {rate}, {moved}.")
    return tuple(notes)


def _of(value: float | None, ceiling: float | None) -> Figure:
    known = value is not None and ceiling is not None and ceiling > 0
    return Figure(100 * value / ceiling if known and value and ceiling else None, 1.0)
