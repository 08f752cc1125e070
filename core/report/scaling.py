"""Growth with batch and context, and throughput with what MFU is a share of."""

from __future__ import annotations

from llmprof.core.figures.operations import COUNTED, operations
from llmprof.core.figures.throughput import MFU_CONVENTION, Throughput, denominators, throughput
from llmprof.core.report.case_groups import axes_of, axis_cells, status_word
from llmprof.core.report.comparisons import grouped_alike, times
from llmprof.core.report.sentences import is_launch_bound, ref, what_std_is
from llmprof.core.report.subject import Subject, subject_of
from llmprof.core.report.table import Cell, Column, Figure, Table, rate_figure, spread_figure
from llmprof.core.spec.axes import BY_FIELD
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.power_fit import LEAST_SPAN
from llmprof.core.stats.ratio import Ratio, ratio
from llmprof.core.system.numbers import as_given, format_number

SIZES = ("batch_size", "context_length")
NOISY = 0.25  # of a ratio: an interval wider than this says little of growth


def scaling(view: RunView) -> Table | None:
    """Time, rate and growth against each group's smallest cell, beside the arithmetic's."""
    subject = subject_of(view)
    groups = scaling_groups(subject)
    if not groups:
        return None
    states = [state for group in groups for state in group]
    axes = axes_of(states, *SIZES)
    columns = (
        Column("Model Size", numeric=False),
        Column("Mode", numeric=False),
        *(column for _, column in axes),
        Column("Batch"),
        Column("Context", "tokens"),
        Column("Mean", "ms"),
        Column("Std Dev", "ms"),
        Column("Work", "TFLOP"),
        Column("Rate", "TFLOP/s"),
        Column("Work growth", "×"),
        Column("Time growth", "×"),
    )
    rows = tuple(
        (
            state.case.model.name,
            state.case.mode,
            *axis_cells(state, axes),
            state.case.batch_size,
            state.case.context_length,
            *_growth(state, group[0]),
        )
        for group in groups
        for state in group
    )
    notes = (
        "Work: operations of the matrix products of a step; Rate: Work over Mean. Growth is "
        "against the group's first row, of time where the host sets the pace of neither; equal "
        "growth of work and time is a steady rate. "
        f"{what_std_is(state.total for state in states)}",
        *(line for group in groups for line in sentences(subject, group)),
    )
    return Table("scaling", "Growth with batch and context", columns, rows, notes)


def scaling_groups(view: RunView) -> list[list[CaseState]]:
    """Timing cases that differ in batch and context alone, smallest work first."""
    timing = [state for state in view.cases if state.case.probe == "timing"]
    groups = [
        sorted(group, key=lambda state: operations(state) or state.case.tokens)
        for group in grouped_alike(timing, *(BY_FIELD[name] for name in SIZES))
    ]
    return [group for group in groups if len(group) > 1]


def sentences(subject: Subject, group: list[CaseState]) -> list[str]:
    """How time followed work where the card was busy; where the host set the pace it says nothing.

    A growth needs a range: at least LEAST_SPAN times the work, of cells to which no check says no.
    """
    ran = [state for state in group if state.total is not None]
    if len(ran) < 2:
        return []
    name = f"{ran[0].case.model.name}, {ran[0].case.mode}"
    slow = [state for state in ran if is_launch_bound(state)]
    busy = [state for state in ran if not is_launch_bound(state)]
    grown = _growth_of([state for state in busy if not subject.failed_checks(state)])
    lines = []
    if grown is not None:
        lines.append(f"{name}{', where the card sets the pace' if slow else ''}: {grown}.")
    if slow:
        most = max(slow, key=lambda each: each.case.tokens)
        up_to = [state for state in ran if state.case.tokens <= most.case.tokens]
        some = "" if len(slow) == len(up_to) else f"of {len(slow)} of {len(up_to)} cells "
        lines.append(
            f"{name}: the host sets the pace {some}up to {_work(most)}, "
            "where time follows the number of launches and not the work: no growth is told "
            f"{ref(*slow)}."
        )
    return lines


def _work(state: CaseState) -> str:
    """context 256 × batch 4 (1,024 tokens a step)."""
    case = state.case
    sides = f"context {case.context_length:,} × batch {case.batch_size:,}"
    return f"{sides} ({case.tokens:,} tokens a step)"


def _growth_of(states: list[CaseState]) -> str | None:
    """From the least work to the most; None over less than LEAST_SPAN."""
    if len(states) < 2:
        return None
    first, last = states[0], states[-1]
    time = ratio(last.total, first.total)
    done = operations(last), operations(first)
    if time is None or done[0] is None or done[1] is None:
        return None
    work = done[0] / done[1]
    if work < LEAST_SPAN:
        return None
    return (
        f"{format_number(work, 0.1 * work)} × the work takes {times(time)} the time "
        f"{ref(first, last)}{_doubt(time)}"
    )


def _doubt(time: Ratio) -> str:
    noisy = time.half is not None and time.half > NOISY * time.value
    return "; the steps scatter too much to say how time grows" if noisy else ""


def throughput_table(view: RunView) -> Table | None:
    """Tokens and operations a second of every measured case, and MFU where a peak is known."""
    given = None if view.experiment is None else view.experiment.peak_tflops
    found = [
        (state, rates)
        for state in view.cases
        if (rates := throughput(state, state.environment or view.environment, given)) is not None
    ]
    if not found:
        return None
    axes = axes_of([state for state, _ in found])
    with_peak = any(rates.peak is not None for _, rates in found)
    with_ceiling = any(rates.of_ceiling is not None for _, rates in found)
    with_samples = any(rates.tokens_per_s is None for _, rates in found)
    columns = (
        Column("Model Size", numeric=False),
        Column("Mode", numeric=False),
        *(column for _, column in axes),
        Column("Throughput", "tokens/s"),
        *((Column("Throughput", "samples/s"),) if with_samples else ()),
        Column("Rate", "TFLOP/s"),
        *((Column("Dense peak", "TFLOP/s"), Column("MFU", "%")) if with_peak else ()),
        *((Column("Of calibrated matmul rate", "%"),) if with_ceiling else ()),
    )
    rows = tuple(
        (
            state.case.model.name,
            state.case.mode,
            *axis_cells(state, axes),
            *_rates(rates, with_samples, with_peak, with_ceiling),
        )
        for state, rates in found
    )
    return Table("throughput", "Throughput", columns, rows, _conventions(view, found))


def _conventions(view: RunView, found: list[tuple[CaseState, Throughput]]) -> tuple[str, ...]:
    own = (COUNTED,) if any(state.case.shape is None for state, _ in found) else ()
    peaks = dict.fromkeys(rates.peak for _, rates in found if rates.peak is not None)
    if peaks:
        return (
            "From the wall time of whole steps.",
            f"{MFU_CONVENTION} {denominators(peaks)}.",
            *own,
        )
    name = "this device" if view.environment is None else view.environment.device_name
    return (
        "From the wall time of whole steps; operations of the matrix products, backward twice the "
        f"forward. No MFU: the dense peak of {name} is not known (--peak-tflops gives one).",
        *own,
    )


def _rates(
    rates: Throughput, with_samples: bool, with_peak: bool, with_ceiling: bool
) -> tuple[Cell, ...]:
    def of(value: float | None) -> Figure:
        known = value is not None and rates.relative is not None
        return rate_figure(value, (rates.relative or 0.0) * (value or 0.0) if known else None)

    cells: tuple[Cell, ...] = (of(rates.tokens_per_s),)
    if with_samples:
        cells += (of(rates.samples_per_s),)
    cells += (of(rates.tflops),)
    if with_peak:
        peak = None if rates.peak is None else as_given(rates.peak.tflops)
        cells += (peak, None if rates.mfu is None else Figure(100 * rates.mfu, 1.0))
    if with_ceiling:
        cells += (None if rates.of_ceiling is None else Figure(100 * rates.of_ceiling, 1.0),)
    return cells


def _growth(state: CaseState, first: CaseState) -> tuple[Cell, ...]:
    flops, least = operations(state), operations(first)
    work = Figure(None if flops is None else flops / 1e12)
    more = Figure(None if flops is None or least is None else flops / least, 0.1)
    if state.total is None:
        word = status_word(state)
        return word, word, work, word, more, word
    waits = is_launch_bound(first) or is_launch_bound(state)
    grown = None if first.total is None or waits else state.total.mean / first.total.mean
    return (
        Figure(state.total.mean, state.total.ci95),
        spread_figure(state.total.std, state.total.ci95),
        work,
        rate_figure(None if flops is None else flops / 1e9 / state.total.mean),
        more,
        Figure(grown, 0.1),
    )
