"""The timing tables of a run, each defined once."""

from __future__ import annotations

import math
from collections.abc import Callable

from llmprof.core.lint import Verdict, lint
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
from llmprof.core.stats import Summary

MODEL = Column("Model Size", numeric=False)
PARAMETERS = Column("Parameters")
SHAPE = (Column("d_model"), Column("d_ff"), Column("num_layers"), Column("num_heads"))
SPREAD = "Mean and sample standard deviation (ddof 1) over the measured steps; digits follow the "
SPREAD += "95 % confidence interval of the mean (Student's t)."


def model_sizes(view: RunView) -> Table | None:
    """M01: dimensions and counted parameters of every model of the run."""
    shapes = {state.case.model.name: state for state in view.cases}
    if not shapes:
        return None
    models = [state.case.model for state in shapes.values()]
    more = [
        (field, Column(field))
        for field, usual in (("num_kv_heads", "num_heads"), ("vocab_size", None))
        if any(getattr(m, field) != (getattr(m, usual) if usual else 10_000) for m in models)
    ]
    rows: list[tuple[Cell, ...]] = []
    for name, state in shapes.items():
        built = next(
            (s.model for s in view.cases if s.case.model.name == name and s.model is not None), None
        )
        counted = "counted" if built is not None else "by formula"
        parameters = built.parameters if built is not None else state.case.model.parameters
        extra = tuple(str(getattr(state.case.model, field)) for field, _ in more)
        rows.append((name, *shape_cells(state.case.model), *extra, parameters, counted))
    columns = (
        Column("Size", numeric=False),
        *SHAPE,
        *(column for _, column in more),
        PARAMETERS,
        Column("Counted", numeric=False),
    )
    changed = any("+" in name for name in shapes)
    notes = ("A + marks a preset whose dimensions were changed on the command line.",)
    return Table("M01", "Model sizes", columns, tuple(rows), notes if changed else ())


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
    notes = (f"Each measured directly, none by subtraction: {sources(view, phases)}.",)
    return Table("M04", "Forward, backward, optimizer", columns, tuple(rows), notes)


def steadiness(view: RunView) -> Table | None:
    """M05: how steady each case was, with the verdicts on it."""
    axes = [axis for axis in varying_axes(view) if axis[0] not in ("context_length", "batch_size")]
    rows: list[tuple[Cell, ...]] = []
    said = lint(view)
    for state in view.cases:
        total = state.total
        if total is None or state.case.probe in ("kernels", "memory"):  # not timings
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
                verdict_cell(said[state.index]),
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


def verdict_cell(said: tuple[Verdict, ...]) -> str:
    """Errors whole, then spread and pace in short; the other checks have a table of their own."""
    texts = [v.text for v in said if v.level == "error"]
    for rule in ("stability", "launch-bound"):
        texts += [v.text.split(" (CV")[0].split(": the host")[0] for v in said if v.rule == rule]
    return "; ".join(dict.fromkeys(texts)) or "none"


def sources(view: RunView, phases: tuple[Phase, ...]) -> str:
    """Which modes gave the figures of which phase."""
    told = []
    for phase in phases:
        states = [group.source(phase) for group in groups(view)]
        modes = dict.fromkeys(state.case.mode for state in states if state is not None)
        if modes:
            told.append(f"{phase} from mode {' or '.join(modes)}")
    return ", ".join(told)


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
            None if asked is None else Figure(asked / 2**30, 0.1),
            message,
        )
        rows.setdefault(key, []).append(state.case.mode)
    columns = (
        MODEL,
        Column("Modes", numeric=False),
        PARAMETERS,
        Column("Status", numeric=False),
        Column("Phase", numeric=False),
        Column("Asked or needed", "GiB"),
        Column("Reason", numeric=False),
    )
    note = "OOM (predicted): not tried, since it needs more than is free."
    predicted = any(s.failure is not None and s.failure.predicted for s in view.cases)
    told = tuple((key[0], ", ".join(dict.fromkeys(m)), *key[1:]) for key, m in rows.items())
    return Table("M06", "Without figures", columns, told, (note,) * predicted) if rows else None


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
    found = [(group, f) for group in groups(view) if (f := group.summary("forward")) is not None]
    if not found:
        return None
    most = max(forward_flops(group.case) for group, _ in found)
    unit, size = ("TFLOP", 1e12) if most >= 1e10 else ("MFLOP", 1e6)
    rows: list[tuple[Cell, ...]] = []
    for group, forward in found:
        flops = forward_flops(group.case) / size
        state = group.source("backward")
        within = None if state is None else state.summaries.get("forward")
        backward = group.summary("backward")
        rate = 1e3 * flops / forward.mean
        spread = relative(forward)
        rows.append(
            (
                group.case.model.name,
                *axis_cells(group.case, axes),
                Figure(flops),
                Figure(rate, None if spread is None else rate * spread),
                ratio(backward, forward),
                ratio(backward, within),
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
    notes = (
        "Backward arithmetic is twice the forward's, so a compute-bound model shows about 2. "
        "The last column divides by the forward of the same steps, which also keeps the graph. "
        "Digits follow both confidence intervals.",
    )
    return Table("M10", "Ratios", columns, tuple(rows), notes)


def relative(summary: Summary) -> float | None:
    """Half-width of the 95 % interval over the mean."""
    return None if summary.ci95 is None or summary.mean <= 0 else summary.ci95 / summary.mean


def ratio(upper: Summary | None, lower: Summary | None) -> Cell:
    """A ratio of means with the uncertainty of both; a word where it would say nothing."""
    if upper is None or lower is None or lower.mean <= 0:
        return None
    value = upper.mean / lower.mean
    spreads = relative(upper), relative(lower)
    if spreads[0] is None or spreads[1] is None:
        return Figure(value, 0.1 * value)
    uncertainty = value * math.hypot(spreads[0], spreads[1])
    return Figure(value, uncertainty) if uncertainty < value / 2 else "too noisy"


def _mean_and_std(group: Group, phase: Phase) -> list[Cell]:
    state = group.source(phase)
    if state is None:
        return [None, None]
    found = state.summaries.get(phase)
    if found is None:
        return [status_word(state)] * 2
    return [Figure(found.mean, found.ci95), Figure(found.std, found.ci95)]


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
