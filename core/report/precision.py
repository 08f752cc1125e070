"""M17 and M18: full against mixed precision, and what this device cannot do."""

from __future__ import annotations

from llmprof.core.figures.memory_peaks import kind_of
from llmprof.core.report.case_groups import axes_of, axis_cells, status_word
from llmprof.core.report.comparisons import (
    decision_cell,
    excluded,
    grouped_alike,
    judging_note,
    named_parts,
    phase_sentence,
    ratio_cells,
    times,
)
from llmprof.core.report.sentences import (
    forward_peak,
    is_launch_bound,
    mib,
    ms,
    peak_bytes,
    ref,
    why_not,
)
from llmprof.core.report.subject import Subject, subject_of
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.spec.axes import BY_FIELD
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.units import MIB

SAME = 1.0  # percent
MIXED = ("bf16", "fp16")


def precision(view: RunView) -> Table | None:
    """M17: a row for each size and mixed precision beside the same size in fp32."""
    subject = subject_of(view)
    pairs = precision_pairs(subject)
    if not pairs:
        return None
    states = [state for pair in pairs for state in pair]
    axes, kind = axes_of(states, "precision"), kind_of(states)
    modes = len({state.case.mode for state in states}) > 1
    columns = (
        Column("Model Size", numeric=False),
        *((Column("Mode", numeric=False),) if modes else ()),
        *(column for _, column in axes),
        Column("Mixed precision", numeric=False),
        Column("Avg Time FP", "ms"),
        Column("Avg Time MP", "ms"),
        Column("Speed-up", "×"),
        Column("95 % interval", "×", numeric=False),
        Column(f"Peak {kind} FP", "MiB"),
        Column(f"Peak {kind} MP", "MiB"),
        Column("Verdict", numeric=False),
    )
    rows = tuple(
        (
            full.case.model.name,
            *((full.case.mode,) if modes else ()),
            *axis_cells(full, axes),
            mixed.case.precision,
            *_figures(subject, full, mixed),
        )
        for full, mixed in pairs
    )
    compared = (found for pair in pairs if (found := subject.compare(*pair)) is not None)
    judged = judging_note(compared)
    notes = (
        "FP: fp32 with TF32 off. MP: autocast over the forward and the loss, fp32 weights and "
        "optimizer; fp16 with a gradient scaler. Means of whole steps; peak of one extra step.",
        *((judged,) if judged else ()),
        *dict.fromkeys(line for pair in pairs for line in sentences(subject, *pair)),
    )
    return Table("precision", "Full against mixed precision", columns, rows, notes, number="M17")


def precision_pairs(view: RunView) -> list[tuple[CaseState, CaseState]]:
    """(fp32, mixed) cases that differ in their precision alone."""
    timing = [state for state in view.cases if state.case.probe == "timing"]
    pairs = []
    for group in grouped_alike(timing, BY_FIELD["precision"]):
        full = next((state for state in group if state.case.precision == "fp32"), None)
        if full is not None:
            pairs += [(full, state) for state in group if state.case.precision in MIXED]
    return pairs


def sentences(subject: Subject, full: CaseState, mixed: CaseState) -> list[str]:
    """What mixed precision brought to one size, and why it may be little."""
    if full.total is None or mixed.total is None:
        return why_not((full, mixed))
    found = subject.compare(full, mixed)
    if found is None:
        return []
    name = f"{full.case.model.name} in {mixed.case.precision}"
    total = found.total
    figures = f"from {ms(full.total)} to {ms(mixed.total)}, {times(total.speedup)} as fast"
    match total.decision:
        case "faster" | "slower":
            text = f"{name} is {total.decision}: {figures}"
        case "not distinguished":
            text = f"{name}: {figures}; {excluded(total)}"
        case _:
            text = f"{name}: {figures} ({found.not_judged})"
    parts = [phase_sentence(part) for part in named_parts(found, "faster", "slower")]
    if parts and total.decision == "not distinguished":
        text += f"; {'; '.join(parts)}"
    if is_launch_bound(mixed):
        text += "; the host sets its pace, so faster kernels only wait for it"
    return [f"{text}{_memory_words(full, mixed)} {ref(full, mixed)}.", *why_not((full, mixed))]


def _memory_words(full: CaseState, mixed: CaseState) -> str:
    """What happened to the peak of the step, and of its forward where autocast's copies show."""
    before, after = peak_bytes(full), peak_bytes(mixed)
    if not before or not after:
        return ""
    change = 100 * (after / before - 1)
    text = f"; peak {kind_of([full])} memory from {mib(before)} to {mib(after)}"
    text += " (the same)" if abs(change) < SAME else f" ({change:+.0f} %)"
    forward = forward_peak(full), forward_peak(mixed)
    if forward[0] and forward[1] and forward[1] > (1 + SAME / 100) * forward[0]:
        text += f"; within the forward it rises from {mib(forward[0])} to {mib(forward[1])}"
        if kind_of([full, mixed]) == "allocated":
            text += (
                ", since autocast keeps half-precision copies of the weights beside the fp32 ones"
            )
    return text


def _figures(subject: Subject, full: CaseState, mixed: CaseState) -> tuple[Cell, ...]:
    found = subject.compare(full, mixed)
    speed = ratio_cells(None if found is None else found.total.speedup)
    return (*map(_time, (full, mixed)), *speed, *map(_memory, (full, mixed)), decision_cell(found))


def _time(state: CaseState) -> Cell:
    if state.total is None:
        return status_word(state)
    return Figure(state.total.mean, state.total.ci95)


def _memory(state: CaseState) -> Cell:
    count = peak_bytes(state)
    return status_word(state) if count is None else Figure(count / MIB, 10.0)
