"""M15: what each switch brings against the baseline, measured."""

from __future__ import annotations

from llmprof.core.figures.comparison import Comparison, PartChange
from llmprof.core.figures.losses import LossDifference, loss_difference
from llmprof.core.figures.memory_peaks import kind_of
from llmprof.core.figures.replicates import processes_of
from llmprof.core.report.case_groups import axes_of, axis_cells, status_word
from llmprof.core.report.comparisons import (
    beside_baselines,
    decision_cell,
    excluded,
    judging_note,
    named_parts,
    phase_sentence,
    ratio_cells,
    switch_name,
    times,
)
from llmprof.core.report.repayment import compile_ms, steps_until_repaid
from llmprof.core.report.sentences import is_launch_bound, listing, ms, peak_bytes, ref, why_not
from llmprof.core.report.subject import Subject, subject_of
from llmprof.core.report.table import Cell, Column, Figure, Table, spread_figure
from llmprof.core.spec.axes import SWITCHES
from llmprof.core.state.launch_bound import NEGLIGIBLE
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.numbers import format_number, significant
from llmprof.core.system.text import counted
from llmprof.core.system.units import MIB

COLD = (
    "Compile times are cold: every cell has its own empty inductor cache, and the figure, which "
    "holds one run of the step, is no part of the mean."
)
LOSSES = (
    "Loss difference: the largest relative difference of the loss from the baseline's over the "
    "same steps from the same seed, at most 20; a switch that trains alike stays within its "
    "precision's rounding."
)


def switches(view: RunView) -> list[Table]:
    """M15: a row a switch, then a row a switch and phase."""
    subject = subject_of(view)
    groups = switch_groups(subject)
    if not groups:
        return []
    return [_overview(subject, groups), _by_phase(subject, groups)]


def switch_groups(view: RunView) -> list[list[CaseState]]:
    """Timing cases that differ in switches alone, the baseline of each group first."""
    return beside_baselines(state for state in view.cases if state.case.probe == "timing")


def comparisons(subject: Subject, group: list[CaseState]) -> list[Comparison]:
    """The measured cases of a group against its first."""
    base, *others = group
    return [found for state in others if (found := subject.compare(base, state)) is not None]


def _head(groups: list[list[CaseState]]) -> tuple[Column, ...]:
    states = [state for group in groups for state in group]
    modes = len({state.case.mode for state in states}) > 1
    return (
        Column("Model Size", numeric=False),
        *((Column("Mode", numeric=False),) if modes else ()),
        *(column for _, column in axes_of(states, *(axis.field for axis in SWITCHES))),
        Column("Switch", numeric=False),
    )


def _labels(groups: list[list[CaseState]], state: CaseState, base: CaseState) -> tuple[Cell, ...]:
    states = [each for group in groups for each in group]
    modes = len({each.case.mode for each in states}) > 1
    axes = axes_of(states, *(axis.field for axis in SWITCHES))
    return (
        state.case.model.name,
        *((state.case.mode,) if modes else ()),
        *axis_cells(state, axes),
        switch_name(state.case, base.case),
    )


def _overview(subject: Subject, groups: list[list[CaseState]]) -> Table:
    kind = kind_of(state for group in groups for state in group)
    columns = (
        *_head(groups),
        Column("Processes"),
        Column("Mean", "ms"),
        Column("Std Dev", "ms"),
        Column("Speed-up", "×"),
        Column("95 % interval", "×", numeric=False),
        Column(f"Peak {kind}", "MiB"),
        Column("Memory change", "%"),
        Column("Compile + first step", "s"),
        Column("Loss difference", "%"),
        Column("Verdict", numeric=False),
    )
    rows = tuple(
        (*_labels(groups, state, group[0]), *_figures(subject, state, group[0]))
        for group in groups
        for state in group
    )
    found = [each for group in groups for each in comparisons(subject, group)]
    notes = (
        "Each row is compared with its baseline, the first of its group: speed-up and memory "
        f"change are from the baseline to the row. {judging_note(found)}".rstrip(),
        f"Std Dev is of steps within a process. {COLD} {LOSSES}",
        *(line for group in groups for line in sentences(subject, group)),
    )
    return Table("switches", "Switches", columns, rows, notes, number="M15")


def _by_phase(subject: Subject, groups: list[list[CaseState]]) -> Table:
    columns = (
        *_head(groups),
        Column("Part of the step", numeric=False),
        Column("Baseline", "ms"),
        Column("Switch", "ms"),
        Column("Speed-up", "×"),
        Column("95 % interval", "×", numeric=False),
        Column("Acted on", numeric=False),
        Column("Verdict", numeric=False),
    )
    rows = tuple(
        (*_labels(groups, found.other, group[0]), *_part_cells(part, found))
        for group in groups
        for found in comparisons(subject, group)
        for part in found.parts
        if part.touched or _counts(part, found)
    )
    notes = (
        "Device time of each phase, means over processes. Acted on: what the switch changes, which "
        "is judged with the total; other phases are shown, not judged, where they take 2 % of a "
        "step.",
    )
    return Table("switch-phases", "Switches by phase", columns, rows, notes)


def _counts(part: PartChange, found: Comparison) -> bool:
    pairs = ((part.base, found.total.base), (part.other, found.total.other))
    return any(each.mean >= NEGLIGIBLE * whole.mean for each, whole in pairs)


def _part_cells(part: PartChange, found: Comparison) -> tuple[Cell, ...]:
    verdict = found.not_judged if part.decision == "not judged" else part.decision
    return (
        part.part,
        Figure(part.base.mean, part.base.ci95),
        Figure(part.other.mean, part.other.ci95),
        *ratio_cells(part.speedup),
        "yes" if part.touched else "",
        verdict,
    )


def sentences(subject: Subject, group: list[CaseState]) -> list[str]:
    """What may be said of a group: from the same decisions as the rows."""
    base, *others = group
    name = base.case.model.name
    if base.total is None:
        return why_not(group)
    found = comparisons(subject, group)
    lines = [*_fastest(name, base, found), *_phases(name, found), *_even(name, found)]
    lines += [line for each in found if (line := _repaid(each)) is not None]
    if is_launch_bound(base):
        share = 100 * (base.host_share or 0)
        lines.append(
            f"{name}: the host sets the baseline's pace and spends {share:.0f} % of the step "
            f"enqueueing; fewer launches help it more than faster kernels {ref(base)}."
        )
    lines += _unlike(name, base, others)
    return [*lines, *why_not(group)]


def _fastest(name: str, base: CaseState, found: list[Comparison]) -> list[str]:
    faster = [each for each in found if each.total.decision == "faster"]
    if not faster:
        if not any(each.judged for each in found):
            return []
        return [f"{name}: no switch is found to make the step faster {ref(base)}."]
    best = max(faster, key=lambda each: each.total.speedup.value)
    assert best.other.total is not None
    assert base.total is not None
    switch = switch_name(best.other.case, base.case)
    said = f"{switch} makes the step faster"
    if len(faster) > 1:
        said = f"{len(faster)} switches make the step faster, {switch} by the largest ratio"
    return [
        f"{name}: {said}: from {ms(base.total)} to {ms(best.other.total)}, a speed-up of "
        f"{times(best.total.speedup)} {ref(base, best.other)}."
    ]


def _phases(name: str, found: list[Comparison]) -> list[str]:
    """Switches whose own phase changed while the step is not distinguished, or got slower."""
    lines = []
    for each in found:
        parts = named_parts(each, "faster", "slower")
        if not parts or each.total.decision == "faster":
            continue
        switch = switch_name(each.other.case, each.base.case)
        said = "; ".join(phase_sentence(part) for part in parts)
        total = each.total
        step = excluded(total) if total.decision == "not distinguished" else phase_sentence(total)
        lines.append(f"{name}, {switch}: {said}; {step} {ref(each.base, each.other)}.")
    return lines


def _even(name: str, found: list[Comparison]) -> list[str]:
    even = [
        switch_name(each.other.case, each.base.case)
        for each in found
        if each.judged and not each.changed("faster", "slower")
    ]
    if not even:
        return []
    verb = "is" if len(even) == 1 else "are"
    return [f"{name}: {listing(even)} {verb} not distinguished from the baseline."]


def _unlike(name: str, base: CaseState, others: list[CaseState]) -> list[str]:
    """Switches that train differently than their precision explains."""
    lines = []
    for state in others:
        found = loss_difference(state, base)
        if found is not None and found.unexplained:
            switch = switch_name(state.case, base.case)
            apart, explained = (significant(100 * x, 2) for x in (found.largest, found.explained))
            lines.append(
                f"{name}, {switch}: it trains differently, the loss lies up to {apart} % from "
                f"the baseline's, where rounding explains {explained} % {ref(base, state)}."
            )
    return lines


def _repaid(found: Comparison) -> str | None:
    state, cold, steps = found.other, compile_ms(found), steps_until_repaid(found)
    if cold is None or found.not_judged:
        return None
    cost = f"compiling took {format_number(cold / 1e3, 1.0)} s"
    name = f"{state.case.model.name}, {switch_name(state.case, found.base.case)}"
    if isinstance(steps, int):
        return f"{name}: {cost}, repaid after about {counted(steps, 'step')} {ref(state)}."
    if steps == "never":
        return f"{name}: {cost} and no step repays it {ref(state)}."
    return f"{name}: {cost}; whether steps repay it is {steps} {ref(state, found.base)}."


def _figures(subject: Subject, state: CaseState, base: CaseState) -> tuple[Cell, ...]:
    cold = None if state.observed is None else state.observed.compile_ms
    compiled: Cell = None if cold is None else Figure(cold / 1e3, 0.1)
    if state.case.compile is None:
        compiled = "eager"
    ran = sum(each.total is not None for each in processes_of(state))
    if state.total is None:
        return (ran, *(status_word(state),) * 6, compiled, None, "no figure")
    found = None if state is base else subject.compare(base, state)
    before, after = peak_bytes(base), peak_bytes(state)
    speed: tuple[Cell, Cell] = (Figure(1.0, 0.01), "")
    return (
        ran,
        Figure(state.total.mean, state.total.ci95),
        spread_figure(state.total.std, state.total.ci95),
        *(speed if state is base else ratio_cells(None if found is None else found.total.speedup)),
        None if after is None else Figure(after / MIB, 10.0),
        None if not before or after is None else _percent(after / before - 1),
        compiled,
        None if state is base else _loss_cell(loss_difference(state, base)),
        "baseline" if state is base else decision_cell(found),
    )


def _loss_cell(found: LossDifference | None) -> Cell:
    if found is None:
        return None
    percent = 100 * found.largest
    return Figure(percent, 0.1 * percent) if percent >= 0.01 else "under 0.01"


def _percent(change: float) -> Figure:
    return Figure(round(100 * change, 1) + 0.0, 1.0)  # no -0.0
