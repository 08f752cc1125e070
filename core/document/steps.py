"""The step of each size, by phase."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from msgspec.structs import replace

from llmprof.core.catalog.cards import match_device
from llmprof.core.document.configurations import (
    OF_MODEL,
    configuration_cells,
    is_plain,
    parameters,
    source_cells,
    source_columns,
    switches_text,
)
from llmprof.core.document.quotes import KeyedTable, keyed
from llmprof.core.document.repeats import step_of, steps_of_case
from llmprof.core.document.sources import Source
from llmprof.core.figures.replicates import processes_of
from llmprof.core.figures.throughput import peak_of, throughput
from llmprof.core.lint.physics import OPTIMIZER_BYTES
from llmprof.core.report.case_groups import status_word
from llmprof.core.report.table import Cell, Column, Figure, spread_figure
from llmprof.core.report.timing import parameters_of
from llmprof.core.spec.axes import Precision
from llmprof.core.spec.case import Phase
from llmprof.core.state.launch_bound import MOST_OF_STEP
from llmprof.core.state.view import CaseState
from llmprof.core.stats.summary import Summary
from llmprof.core.system.numbers import as_given

Found = tuple[Source, CaseState]
MODES = ("train", "forward-backward", "forward-grad", "forward")  # the widest first
FORWARD_ALONE = "Forward alone"  # as a case of its own, in mode forward
SHOWN: tuple[Phase, ...] = ("forward", "backward", "optimizer")
PEAKS: dict[Precision, str] = {
    "fp32": "fp32 without tensor cores",
    "tf32": "TF32 on tensor cores",
    "bf16": "bf16 on tensor cores",
    "fp16": "fp16 on tensor cores",
}
REST: tuple[Phase, ...] = ("loss", "zero_grad")
BEYOND_WORK = 1.25  # times as long as its work takes: the host makes the rest
COLUMNS = (
    Column("Parameters"),
    Column("Variant", numeric=False),
    Column(FORWARD_ALONE, "ms"),
    Column("Forward", "ms"),
    Column("Backward", "ms"),
    Column("Optimizer", "ms"),
    Column("Other", "ms"),
    Column("Step", "ms"),
    Column("95 % interval", "± ms"),
    Column("Std Dev of steps", "ms"),
    *(Column(f"{phase.capitalize()} std", "ms") for phase in SHOWN),
    Column("CV", "%"),
    Column("n", "processes"),
    Column("Of dense peak", "%"),
    Column("Dense peak", "TFLOP/s"),
    Column("Optimizer moves", "GB/s"),
    Column("Of bandwidth", "%"),
    Column("Pace set by", numeric=False),
    Column("Failed check", numeric=False),
)
NOTES = (
    "Device time by phase, each measured directly; forward alone: of mode forward, which keeps "
    "nothing for a backward, of another run where this one has none. The interval is "
    "the mean's, by Student's t, between fresh processes; "
    "blank for one process, whose steps say nothing of another. Std: the standard deviation of the "
    "steps within a process; CV: the same over their mean. Other: loss and zero_grad. Dense peak: "
    "of the card, in the precision of the row. "
    "The optimizer moves at least its parameters, gradients and two moments, read and written; "
    "bandwidth is the card's published one. Pace set by: host, where phases at whose end the card "
    "has caught up with the host make most of the step, and which these are, by the process in "
    "which they make most; an optimizer that takes longer than where the card is behind is one.",
)


def step_cells(sources: Sequence[Source]) -> list[Found]:
    """One case for each size, context and batch: the widest mode that ran, without switches."""
    found: dict[Hashable, list[Found]] = {}
    for source in sources:
        for state in source.cases:
            case = state.case
            if case.probe == "timing":
                found.setdefault((case.model, case.context_length, case.batch_size), []).append(
                    (source, state)
                )
    chosen = [max(cells, key=_rank) for cells in found.values()]
    return sorted(
        chosen,
        key=lambda each: (
            parameters(each[1]),
            each[1].case.context_length,
            each[1].case.batch_size,
        ),
    )


def _rank(found: Found) -> tuple[object, ...]:
    state = found[1]
    return (
        state.total is not None,
        is_plain(state.case),
        -MODES.index(state.case.mode),
        len(processes_of(state)),
        state.case.warmup_steps,
    )


def step_table(cells: Sequence[Found], sources: Sequence[Source]) -> KeyedTable | None:
    """A row for each of step_cells()."""
    head = source_columns(sources)
    return keyed(
        "steps",
        "The step by phase",
        (*head, *OF_MODEL, *COLUMNS),
        (
            (
                step_key(source, state),
                (
                    *source_cells(source, head),
                    *configuration_cells(state),
                    parameters_of(state),
                    switches_text(state.case),
                    *_figures(source, state, sources),
                ),
            )
            for source, state in cells
        ),
        NOTES,
    )


def step_key(source: Source, state: CaseState) -> Hashable:
    """The row of a case."""
    return source.name, state.index


def _figures(source: Source, state: CaseState, sources: Sequence[Source]) -> tuple[Cell, ...]:
    environment = state.environment or source.environment
    peak = peak_of(state.case, environment, None)
    dense = None if peak is None else as_given(peak.tflops)
    if state.total is None:
        return (_alone(source, state, sources), *(status_word(state),) * 5, *(None,) * 8, dense,
                *(None,) * 4)  # fmt: skip
    total = state.total
    rates = throughput(state, environment)
    return (
        _alone(source, state, sources),
        *(_mean(state.summaries.get(phase)) for phase in SHOWN),
        _other(state),
        Figure(total.mean, total.ci95),
        Figure(total.ci95, total.ci95) if between_processes(state) else None,
        spread_figure(total.std, total.ci95),
        *(_std(state.summaries.get(phase)) for phase in SHOWN),
        Figure(total.cv_percent, 1.0),
        measured_processes(state),
        None if rates is None or rates.mfu is None else Figure(100 * rates.mfu, 1.0),
        dense,
        *_moved(source, state),
        pace(state, sources),
        ", ".join(source.failed_checks(state)),
    )


def measured_processes(state: CaseState) -> int:
    """How many processes of a case have figures: those that failed stand behind none."""
    return sum(each.total is not None for each in processes_of(state))


def between_processes(state: CaseState) -> bool:
    """Whether the interval of a case's mean is one between fresh processes."""
    return measured_processes(state) > 1


def _moved(source: Source, state: CaseState) -> tuple[Cell, Cell]:
    """Bytes a second that AdamW in fp32 cannot do without, and their share of the bandwidth."""
    optimizer = state.summaries.get("optimizer")
    environment = state.environment or source.environment
    card = None if environment is None else match_device(environment.device_name)
    if optimizer is None or optimizer.mean <= 0 or card is None or not card.bandwidth_gbs:
        return None, None
    if not parameters(state) or state.own_optimizer:
        return None, None
    rate = OPTIMIZER_BYTES * parameters(state) / optimizer.mean / 1e6
    return Figure(rate, 0.01 * rate), Figure(100 * rate / card.bandwidth_gbs, 1.0)


def pace(state: CaseState, sources: Sequence[Source] = ()) -> str:
    """Which phases the host sets the pace of, and whether they are most of the step.

    "card" where there is none, "" where that is not known.
    """
    phases = paced_by_host(state, sources)
    if phases is None:
        return ""
    if not phases:
        return "card"
    most = _mostly_host(state)
    return f"host: {', '.join(phases)}" if most else f"card, except {', '.join(phases)}"


def paced_by_host(state: CaseState, sources: Sequence[Source] = ()) -> tuple[Phase, ...] | None:
    """The phases of which the host sets the pace, by whichever sign; None where none is known.

    At the end of host_phases() the card has caught up with it; in a step that is mostly its, an
    update that takes longer than its work is its as well.
    """
    phases = host_phases(state)
    if phases is None or "optimizer" in phases or not _mostly_host(state):
        return phases
    return (*phases, "optimizer") if host_makes_optimizer(state, sources) else phases


def _mostly_host(state: CaseState) -> bool:
    return state.launch_bound is not None and state.launch_bound.share >= MOST_OF_STEP


def host_makes_optimizer(state: CaseState, sources: Sequence[Source]) -> bool:
    """Whether an update takes longer than the same one does where the card is behind its host.

    An update's work does not depend on batch and context, so what it takes beyond that is launches.
    """
    own = state.summaries.get("optimizer")
    least = min(
        (
            found.mean
            for source in sources
            for other in source.cases
            if _update(other) == _update(state) and host_phases(other) == ()
            if (found := other.summaries.get("optimizer")) is not None
        ),
        default=None,
    )
    return own is not None and least is not None and own.mean > BEYOND_WORK * least


def _update(state: CaseState) -> Hashable:
    """Equal for cases whose updates do the same work on the same card."""
    case = state.case
    card = None if state.environment is None else state.environment.device_name
    return card, case.probe, case.mode, case.model, case.optimizer, case.precision == "fp16"


def host_phases(state: CaseState) -> tuple[Phase, ...] | None:
    """The phases on a card of which the host sets the pace; None where that is not known."""
    on_card = state.environment is not None and state.environment.device.startswith("cuda")
    bound = state.launch_bound if on_card else None
    return None if bound is None else bound.phases


def alone_of(source: Source, state: CaseState, sources: Sequence[Source]) -> Found | None:
    """The same model and work in mode forward: of the same run, else of another on such a card."""
    if state.case.mode == "forward":
        return None
    alone = steps_of_case(replace(state.case, mode="forward"))
    cells = (
        (each, other)
        for each in (source, *sources)
        for other in each.cases
        if "forward" in other.summaries and other.case.probe == state.case.probe
    )
    alike = ((each, other) for each, other in cells if step_of(other) == alone)
    return next((found for found in alike if _card(*found) == _card(source, state)), None)


def _card(source: Source, state: CaseState) -> str:
    environment = state.environment or source.environment
    return "" if environment is None else environment.device_name


def _alone(source: Source, state: CaseState, sources: Sequence[Source]) -> Cell:
    found = alone_of(source, state, sources)
    return None if found is None else _mean(found[1].summaries.get("forward"))


def _std(summary: Summary | None) -> Cell:
    return None if summary is None else spread_figure(summary.std, summary.ci95)


def _mean(summary: Summary | None) -> Cell:
    return None if summary is None else Figure(summary.mean, summary.ci95)


def _other(state: CaseState) -> Cell:
    known = [found for phase in REST if (found := state.summaries.get(phase)) is not None]
    if not known:
        return None
    widths = [each.ci95 for each in known if each.ci95 is not None]
    return Figure(sum(each.mean for each in known), max(widths) if widths else None)
