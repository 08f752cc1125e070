"""M07: every step of every case, a row a phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from llmprof.core.figures.case_device import CaseDevice
from llmprof.core.report.sentences import mean_interval
from llmprof.core.report.subject import subject_of
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.report.timing import INTERVAL
from llmprof.core.spec.case import PHASES
from llmprof.core.state.step_columns import StepRow
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.summary import Summary
from llmprof.core.system.numbers import format_number

COLUMNS = (
    Column("Case"),
    Column("Configuration", numeric=False),
    Column("Part", numeric=False),
    Column("Warm-up steps", "ms", numeric=False),
    Column("Measured steps", "ms", numeric=False),
    Column("Mean", "ms"),
    Column("Std Dev", "ms"),
    INTERVAL,
    Column("CV", "%"),
    Column("Marks", numeric=False),
)
NOTES = (
    "Every step in the order in which it ran, warm-up apart. Mean, Std Dev (ddof 1), the mean's "
    "interval (Student's t) and CV are of the measured steps. The JSON export has the same as "
    "numbers, a value a step.",
)


def step_log(view: RunView) -> Table | None:
    """A row for each phase of each case, for its total and for the wall clock."""
    subject = subject_of(view)
    rows = [
        (state.index + 1, state.case.label, *cells)
        for state, device in zip(subject.cases, subject.devices, strict=True)
        if state.steps_done
        for cells in _rows(state, device)
    ]
    if not rows:
        return None
    return Table("step-log", "Steps", COLUMNS, tuple(rows), NOTES, folded=True, number="M07")


def _rows(state: CaseState, device: CaseDevice) -> Iterator[tuple[Cell, ...]]:
    for phase in filter(state.has_part, state.case.phases):
        at = PHASES.index(phase)
        warmup, measured = ([step.device_ms[at] for step in steps] for steps in _steps(state))
        yield (phase, *_listed(warmup, measured, state.summaries.get(phase)), "")
    first, then = ([step.total_ms for step in steps] for steps in _steps(state))
    yield ("total", *_listed(first, then, state.total), _marks(state.total, device))
    first, then = ([step.wall_ms for step in steps] for steps in _steps(state))
    yield ("wall", *_listed(first, then, state.wall), "")


def _steps(state: CaseState) -> tuple[list[StepRow], list[StepRow]]:
    return list(state.warmup), list(state.measured)


def _listed(
    warmup: Sequence[float | None], measured: Sequence[float | None], summary: Summary | None
) -> tuple[Cell, ...]:
    figures: tuple[Cell, ...] = (None, None, None, None)
    if summary is not None:
        mean, std = (Figure(value, summary.ci95) for value in (summary.mean, summary.std))
        figures = mean, std, mean_interval(summary), Figure(summary.cv_percent, 1.0)
    return (*(" ".join(map(format_number, each)) for each in (warmup, measured)), *figures)


def _marks(total: Summary | None, device: CaseDevice) -> str:
    """What is to be said of single measured steps: outlier: 3; throttled: 2 to 5, 9."""
    found: tuple[tuple[str, Iterable[int]], ...] = (
        ("outlier", total.mild if total else ()),
        ("severe outlier", total.severe if total else ()),
        ("throttled", device.throttled),
        ("shared card", device.shared),
    )
    told = ((word, _ranges(sorted(positions))) for word, positions in found)
    return "; ".join(f"{word}: {where}" for word, where in told if where)


def _ranges(positions: Sequence[int]) -> str:
    """Positions from 0 as steps from 1, those in a row as 2 to 5."""
    stretches: list[list[int]] = []
    for position in positions:
        if stretches and position == stretches[-1][-1] + 1:
            stretches[-1].append(position)
        else:
            stretches.append([position])
    return ", ".join(
        f"{each[0] + 1} to {each[-1] + 1}" if len(each) > 1 else str(each[0] + 1)
        for each in stretches
    )
