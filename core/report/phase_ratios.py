"""M10: backward over forward, and the rate as the arithmetic grows."""

from __future__ import annotations

import math

from llmprof.core.figures.operations import forward_operations
from llmprof.core.report.case_groups import Group, axis_cells, groups, varying_axes
from llmprof.core.report.table import Cell, Column, Figure, Table, rate_figure
from llmprof.core.report.timing import MODEL
from llmprof.core.state.view import RunView
from llmprof.core.stats.summary import Summary

AGAIN = ", and with checkpoints, whose forward the backward computes again, up to about 3"


def ratios(view: RunView) -> Table | None:
    """M10: backward over forward, and the rate as the arithmetic grows."""
    axes = varying_axes(view)
    found = [(group, f) for group in groups(view) if (f := group.summary("forward")) is not None]
    if not found:
        return None
    work = [_forward_work(group) for group, _ in found]
    most = max((flops for flops in work if flops is not None), default=0)
    unit, size = ("TFLOP", 1e12) if most >= 1e10 else ("MFLOP", 1e6)
    rows: list[tuple[Cell, ...]] = []
    for (group, forward), operations in zip(found, work, strict=True):
        flops = None if operations is None else operations / size
        state = group.source("backward")
        within = None if state is None else state.summaries.get("forward")
        backward = group.summary("backward")
        rate = None if flops is None else 1e3 * flops / forward.mean
        spread = relative(forward)
        rows.append(
            (
                group.case.model.name,
                *axis_cells(group.first, axes),
                Figure(flops),
                rate_figure(rate, None if spread is None or rate is None else rate * spread),
                ratio_cell(backward, forward),
                ratio_cell(backward, within),
            )
        )
    columns = (
        MODEL,
        *(column for _, column in axes),
        Column("Forward work", unit),
        Column("Forward rate", f"{unit}/s"),
        Column("Backward / forward"),
        Column("Backward / forward with graph"),
    )
    again = any(group.case.checkpoint is not None for group, _ in found)
    notes = (
        "Backward arithmetic is twice the forward's, so a compute-bound model shows about 2"
        f"{AGAIN if again else ''}. "
        "The last column divides by the forward of the same steps, which also keeps the graph. "
        "Digits follow both confidence intervals, four at most.",
    )
    return Table("phase-ratios", "Ratios", columns, tuple(rows), notes, number="M10")


def _forward_work(group: Group) -> int | None:
    """Operations of the forward, where any of the group's cases tells them."""
    counted = (forward_operations(state) for state in group.modes.values())
    return next((flops for flops in counted if flops is not None), None)


def relative(summary: Summary) -> float | None:
    """Half-width of the 95 % interval over the mean."""
    return None if summary.ci95 is None or summary.mean <= 0 else summary.ci95 / summary.mean


def ratio_cell(upper: Summary | None, lower: Summary | None) -> Cell:
    """A ratio of means with the uncertainty of both; a word where it would say nothing."""
    if upper is None or lower is None or lower.mean <= 0:
        return None
    value = upper.mean / lower.mean
    spreads = relative(upper), relative(lower)
    if spreads[0] is None or spreads[1] is None:
        return Figure(value, 0.1 * value)
    uncertainty = value * math.hypot(spreads[0], spreads[1])
    return rate_figure(value, uncertainty) if uncertainty < value / 2 else "too noisy"
