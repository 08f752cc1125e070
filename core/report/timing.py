"""The timing tables of a run, each defined once."""

from __future__ import annotations

from collections.abc import Callable

from llmprof.core.lint import lint
from llmprof.core.predict.flops import forward_flops
from llmprof.core.report.groups import (
    Group,
    axis_cells,
    groups,
    status_word,
    varying_axes,
)
from llmprof.core.report.table import Cell, Column, Figure, Prose, Table, with_spread
from llmprof.core.results import CaseState, RunView
from llmprof.core.spec import ModelShape, Phase

MODEL = Column("Model Size", numeric=False)
PARAMETERS = Column("Parameters")
SHAPE = (Column("d_model"), Column("d_ff"), Column("num_layers"), Column("num_heads"))
SPREAD = "Mean and sample standard deviation (ddof 1) over the measured steps; digits follow the "
SPREAD += "95 % confidence interval of the mean (Student's t)."


def model_sizes(view: RunView) -> Table | None:
    """M01: dimensions and counted parameters of every model of the run."""
    shapes = {state.case.model.name: state for state in view.cases}
    rows: list[tuple[Cell, ...]] = []
    for name, state in shapes.items():
        built = next(
            (s.model for s in view.cases if s.case.model.name == name and s.model is not None), None
        )
        counted = "counted" if built is not None else "by formula"
        parameters = built.parameters if built is not None else state.case.model.parameters
        rows.append((name, *shape_cells(state.case.model), parameters, counted))
    columns = (
        Column("Size", numeric=False),
        *SHAPE,
        PARAMETERS,
        Column("Counted", numeric=False),
    )
    return Table("M01", "Model sizes", columns, tuple(rows)) if rows else None


def phase_times(view: RunView, key: str, title: str, phase: Phase) -> Table | None:
    """M02, M03: one phase over sizes, with a row also for what does not fit."""
    axes = varying_axes(view)
    rows: list[tuple[Cell, ...]] = []
    for group in groups(view):
        state = group.source(phase)
        if state is None:
            continue
        summary = state.summaries.get(phase)
        if summary is None:
            figures: tuple[Cell, ...] = (status_word(state), status_word(state))
        else:
            figures = (
                Figure(summary.mean, summary.ci95),
                Figure(summary.std, summary.ci95),
            )
        rows.append((group.case.model.name, *axis_cells(group.case, axes), *figures))
    columns = (
        MODEL,
        *(column for _, column in axes),
        Column("Avg Time", "ms"),
        Column("Std Dev", "ms"),
    )
    notes = (SPREAD, *source_notes(groups(view), (phase,)))
    return Table(key, title, columns, tuple(rows), notes) if rows else None


def wide(view: RunView) -> Table | None:
    """M04: forward, backward and optimizer of every size in one table."""
    axes = varying_axes(view)
    phases: tuple[Phase, ...] = ("forward", "backward", "optimizer")
    rows: list[tuple[Cell, ...]] = []
    for group in groups(view):
        figures: list[Cell] = []
        for phase in phases:
            figures += _mean_and_std(group, phase)
        shape = shape_cells(group.case.model)
        rows.append((group.case.model.name, *shape, *axis_cells(group.case, axes), *figures))
    columns = (
        Column("Size", numeric=False),
        *SHAPE,
        *(column for _, column in axes),
        *(
            Column(f"{phase.capitalize()} {what}", "ms")
            for phase in phases
            for what in ("mean", "std")
        ),
    )
    if not any(len(group.modes) > 1 or "train" in group.modes for group in groups(view)):
        return None
    notes = (
        "Forward from mode forward (no grad), backward from forward-backward, optimizer from "
        "train; each measured directly, none by subtraction.",
        *source_notes(groups(view), phases),
    )
    return Table("M04", "Forward, backward, optimizer", columns, tuple(rows), notes)


def steadiness(view: RunView) -> Table | None:
    """M05: how steady each case was, with the verdicts on it."""
    axes = [axis for axis in varying_axes(view) if axis[0] not in ("context_length", "batch_size")]
    rows: list[tuple[Cell, ...]] = []
    said = lint(view)
    for state in view.cases:
        total = state.total
        if total is None:
            continue
        case = state.case
        rows.append(
            (
                case.model.name,
                case.mode,
                parameters_of(state),
                case.context_length,
                case.batch_size,
                *axis_cells(case, axes),
                total.n,
                Figure(total.mean, total.ci95),
                Figure(total.std, total.ci95),
                Figure(total.median, total.ci95),
                Figure(total.cv_percent, 1.0),
                "; ".join(v.text for v in said[state.index]) or "none",
            )
        )
    columns = (
        MODEL,
        Column("Mode", numeric=False),
        PARAMETERS,
        Column("Context", "tokens"),
        Column("Batch"),
        *(column for _, column in axes),
        Column("n"),
        Column("Mean", "ms"),
        Column("Std Dev", "ms"),
        Column("Median", "ms"),
        Column("CV", "%"),
        Column("Verdict", numeric=False),
    )
    note = "Whole steps. Very stable: CV below 2 %; acceptable: below 6 %. No step is dropped."
    return Table("M05", "Stability", columns, tuple(rows), (note,)) if rows else None


def failures(view: RunView) -> Table | None:
    """M06: what gave no figures, in which phase, and what to run instead."""
    rows: list[tuple[Cell, ...]] = []
    for state in view.cases:
        failure = state.failure
        if failure is None and state.done:
            continue
        asked = None if failure is None else failure.bytes_asked
        message = "the run ended first" if failure is None else failure.message
        if failure is not None and failure.instead:
            message = Prose(f"{message.replace('`', chr(39))}; try `{failure.instead}`")
        rows.append(
            (
                state.case.model.name,
                state.case.mode,
                parameters_of(state),
                status_word(state),
                (failure.phase if failure is not None else None) or "n/a",
                None if asked is None else Figure(asked / 2**30, 0.1),
                message,
            )
        )
    columns = (
        MODEL,
        Column("Mode", numeric=False),
        PARAMETERS,
        Column("Status", numeric=False),
        Column("Phase", numeric=False),
        Column("Asked", "GiB"),
        Column("Reason", numeric=False),
    )
    note = "OOM (predicted): not tried, since even the lower bound of bytes exceeds what is free; "
    note += "there, Asked is that bound."
    predicted = any(s.failure is not None and s.failure.predicted for s in view.cases)
    notes = (note,) if predicted else ()
    return Table("M06", "Without figures", columns, tuple(rows), notes) if rows else None


def summary(view: RunView) -> Table | None:
    """M08: forward and backward of every size in one glance."""
    axes = varying_axes(view)
    rows: list[tuple[Cell, ...]] = []
    for group in groups(view):
        cells: list[Cell] = []
        for phase in ("forward", "backward"):
            state = group.source(phase)
            found = None if state is None else state.summaries.get(phase)
            if found is not None:
                cells.append(with_spread(found.mean, found.std, found.ci95))
            else:
                cells.append("n/a" if state is None else status_word(state))
        model = group.case.model
        rows.append((model.name, model.parameters, *axis_cells(group.case, axes), *cells))
    columns = (
        Column("Model", numeric=False),
        Column("Params"),
        *(column for _, column in axes),
        Column("Forward mean ± std", "ms"),
        Column("Backward mean ± std", "ms"),
    )
    return Table("M08", "Summary", columns, tuple(rows)) if rows else None


def ratios(view: RunView) -> Table | None:
    """M10: backward over forward, and the rate as the arithmetic grows."""
    axes = varying_axes(view)
    rows: list[tuple[Cell, ...]] = []
    for group in groups(view):
        forward, backward = group.summary("forward"), group.summary("backward")
        if forward is None:
            continue
        flops = forward_flops(group.case)
        within = _forward_beside_backward(group)
        rows.append(
            (
                group.case.model.name,
                *axis_cells(group.case, axes),
                Figure(flops / 1e12),
                Figure(flops / 1e9 / forward.mean, None),
                None if backward is None else Figure(backward.mean / forward.mean, 0.1),
                None if backward is None or within is None else Figure(backward.mean / within, 0.1),
            )
        )
    columns = (
        MODEL,
        *(column for _, column in axes),
        Column("Forward work", "TFLOP"),
        Column("Forward rate", "TFLOP/s"),
        Column("Backward / forward"),
        Column("Backward / forward with graph"),
    )
    notes = (
        "Backward arithmetic is twice the forward's, so a compute-bound model shows about 2. "
        "The last column divides by the forward of the same steps, which also keeps the graph.",
    )
    return Table("M10", "Ratios", columns, tuple(rows), notes) if rows else None


def _mean_and_std(group: Group, phase: Phase) -> list[Cell]:
    state = group.source(phase)
    if state is None:
        return [None, None]
    found = state.summaries.get(phase)
    if found is None:
        return [status_word(state)] * 2
    return [Figure(found.mean, found.ci95), Figure(found.std, found.ci95)]


def _forward_beside_backward(group: Group) -> float | None:
    state = group.source("backward")
    found = None if state is None else state.summaries.get("forward")
    return None if found is None else found.mean


def shape_cells(model: ModelShape) -> tuple[Cell, ...]:
    """The dimensions that every size table shows, without separators."""
    return tuple(str(n) for n in (model.d_model, model.d_ff, model.num_layers, model.num_heads))


def parameters_of(state: CaseState) -> int:
    """Counted parameters, or the formula's when the model was never built."""
    return state.model.parameters if state.model is not None else state.case.model.parameters


def source_notes(all_groups: list[Group], phases: tuple[Phase, ...]) -> tuple[str, ...]:
    """Says so where a phase's figure does not come from the mode that its table stands for."""
    usual = {"forward": "forward", "backward": "forward-backward", "optimizer": "train"}
    odd = {
        (phase, state.case.mode)
        for group in all_groups
        for phase in phases
        if (state := group.source(phase)) is not None and state.case.mode != usual.get(phase)
    }
    return tuple(
        f"{phase.capitalize()} times come from mode {mode}, since {usual[phase]} was not measured."
        for phase, mode in sorted(odd)
    )


TIMING_TABLES: tuple[Callable[[RunView], Table | None], ...] = (
    summary,
    model_sizes,
    lambda view: phase_times(view, "M02", "Forward", "forward"),
    lambda view: phase_times(view, "M03", "Backward", "backward"),
    wide,
    steadiness,
    ratios,
    failures,
)
