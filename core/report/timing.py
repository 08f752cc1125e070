"""Times by size and phase: M01 to M04 and M08."""

from __future__ import annotations

from llmprof.core.report.case_groups import Group, axis_cells, groups, status_word, varying_axes
from llmprof.core.report.sentences import (
    mean_and_spread,
    mean_interval,
    what_spread_is,
    what_std_is,
)
from llmprof.core.report.shape_columns import SHAPE, dimension, shape_cells
from llmprof.core.report.table import Cell, Column, Figure, Table, spread_figure
from llmprof.core.spec.case import Phase
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.summary import Summary

MODEL = Column("Model Size", numeric=False)
PHASE_NUMBERS: dict[Phase, str] = {"forward": "M02", "backward": "M03"}
PARAMETERS_COLUMN = Column("Parameters")
CHANGED = "A + marks a preset whose dimensions were changed on the command line."
INTERVAL = Column("95 % interval of mean", "ms", numeric=False)


def model_sizes(view: RunView) -> Table | None:
    """M01: dimensions and counted parameters of every model of the run."""
    shapes = {state.case.model.name: state for state in view.cases}
    if not shapes:
        return None
    models = [state.case.shape for state in shapes.values() if state.case.shape is not None]
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
        if built is None and state.case.shape is None:
            counted = "not built"
        parameters = built.parameters if built is not None else parameters_of(state)
        extra = tuple(dimension(state.case.model, field) for field, _ in more)
        rows.append((name, *shape_cells(state.case.model), *extra, parameters, counted))
    columns = (
        Column("Size", numeric=False),
        *SHAPE,
        *(column for _, column in more),
        PARAMETERS_COLUMN,
        Column("Parameters are", numeric=False),
    )
    notes = [CHANGED] if any("+" in name for name in shapes) else []
    notes += map(_form_note, shapes.values())
    return Table(
        "model-sizes", "Model sizes", columns, tuple(rows), tuple(filter(None, notes)), number="M01"
    )


def _form_note(state: CaseState) -> str:
    """How an own model is called, and whether its loss is a phase."""
    built = state.model
    if built is None or not built.form:
        return ""
    inside = "; its forward computes the loss, so there is no loss phase" * built.loss_inside
    return f"{state.case.model.name} is called as {built.form}{inside}."


def phase_times(view: RunView, phase: Phase) -> Table | None:
    """M02, M03: one phase over sizes, with a row also for what does not fit."""
    axes = varying_axes(view)
    rows: list[tuple[Cell, ...]] = []
    found: list[Summary] = []
    for group in groups(view):
        state = group.source(phase)
        if state is None:
            continue
        summary = state.summaries.get(phase)
        if summary is None:
            figures: tuple[Cell, ...] = (status_word(state),) * 3
        else:
            found.append(summary)
            figures = (
                Figure(summary.mean, summary.ci95),
                spread_figure(summary.std, summary.ci95),
                mean_interval(summary),
            )
        rows.append((group.case.model.name, *axis_cells(group.first, axes), *figures))
    columns = (
        MODEL,
        *(column for _, column in axes),
        Column("Avg Time", "ms"),
        Column("Std Dev", "ms"),
        INTERVAL,
    )
    notes = (what_spread_is(found), *source_notes(groups(view), (phase,)))
    title, number = phase.capitalize(), PHASE_NUMBERS.get(phase, "")
    return Table(phase, title, columns, tuple(rows), notes, number=number) if rows else None


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
        rows.append((group.case.model.name, *shape, *axis_cells(group.first, axes), *figures))
    columns = (
        Column("Size", numeric=False),
        *SHAPE,
        *(column for _, column in axes),
        *(Column(f"{phase.capitalize()}{what}", "ms") for phase in phases for what in ("", " std")),
    )
    if not any(len(group.modes) > 1 or "train" in group.modes for group in groups(view)):
        return None
    found = [group.summary(phase) for group in groups(view) for phase in phases]
    notes = (
        f"Each measured directly, none by subtraction: {sources(view, phases)}. "
        f"{what_std_is(found)}",
    )
    title = _title(view, phases)
    return Table("phases", title, columns, tuple(rows), notes, number="M04")


def _title(view: RunView, phases: tuple[Phase, ...]) -> str:
    """The phases, each with the mode that it is of where they are of several."""
    told = [(phase, _modes(view, phase)) for phase in phases]
    several = len({modes for _, modes in told if modes}) > 1
    named = (f"{phase} (mode {modes})" if several and modes else phase for phase, modes in told)
    return ", ".join(named).capitalize()


def _modes(view: RunView, phase: Phase) -> str:
    """Which modes gave a phase's figures."""
    states = (group.source(phase) for group in groups(view))
    return " or ".join(dict.fromkeys(state.case.mode for state in states if state is not None))


def sources(view: RunView, phases: tuple[Phase, ...]) -> str:
    """Which modes gave the figures of which phase."""
    told = ((phase, _modes(view, phase)) for phase in phases)
    return ", ".join(f"{phase} from mode {modes}" for phase, modes in told if modes)


def summary(view: RunView) -> Table | None:
    """M08: forward and backward of every size in one glance."""
    axes = varying_axes(view)
    rows: list[tuple[Cell, ...]] = []
    phases: tuple[Phase, ...] = ("forward", "backward")
    seen: list[Summary] = []
    for group in groups(view):
        cells: list[Cell] = []
        for phase in phases:
            state = group.source(phase)
            found = None if state is None else state.summaries.get(phase)
            if found is not None:
                seen.append(found)
                cells.append(mean_and_spread(found))
            else:
                cells.append("n/a" if state is None else status_word(state))
        states = group.modes.values()
        counted = next((n for state in states if (n := parameters_of(state)) is not None), None)
        rows.append((group.case.model.name, counted, *axis_cells(group.first, axes), *cells))
    columns = (
        Column("Model", numeric=False),
        Column("Params"),
        *(column for _, column in axes),
        Column("Forward mean ± std", "ms"),
        Column("Backward mean ± std", "ms"),
    )
    several = any(each.process_means for each in seen)
    means = "Mean over fresh processes" if several else "Mean over the measured steps"
    within = " within a process" if several else ""
    profiled = any(state.case.probe == "kernels" for state in view.cases)
    notes = (
        f"{means} ± standard deviation (ddof 1) of the steps{within}"
        f"{', without a profiler' if profiled else ''}; {sources(view, phases)}.",
    )
    return Table("summary", "Summary", columns, tuple(rows), notes, number="M08") if rows else None


def _mean_and_std(group: Group, phase: Phase) -> list[Cell]:
    state = group.source(phase)
    if state is None:
        return [None, None]
    found = state.summaries.get(phase)
    if found is None:
        return [status_word(state)] * 2
    return [Figure(found.mean, found.ci95), spread_figure(found.std, found.ci95)]


def parameters_of(state: CaseState) -> int | None:
    """Counted parameters, or the formula's when the model was never built."""
    if state.model is not None:
        return state.model.parameters
    return None if state.case.shape is None else state.case.shape.parameters


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
