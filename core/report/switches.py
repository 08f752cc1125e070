"""M15: what each switch brings against the baseline, measured."""

from __future__ import annotations

from llmprof.core.report.case_groups import axes_of, axis_cells, status_word
from llmprof.core.report.comparisons import compare, grouped_alike, switch_name
from llmprof.core.report.sentences import (
    is_launch_bound,
    listing,
    ms,
    peak_bytes,
    ref,
    times,
    why_not,
)
from llmprof.core.report.table import Cell, Column, Figure, Table, format_number
from llmprof.core.spec.axes import SWITCHES
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.ratio import Ratio
from llmprof.core.system.units import MIB

PAIRED = (
    "Where cases took turns, the speed-up is the geometric mean over the turns, which a slow turn "
    "moves less than it moves the ratio of the means."
)


def switches(view: RunView) -> Table | None:
    """M15: a row a switch: time, speed-up with its interval, memory, and cold compile time."""
    groups = switch_groups(view)
    if not groups:
        return None
    states = [state for group in groups for state in group]
    axes = axes_of(states, *(axis.field for axis in SWITCHES))
    modes = len({state.case.mode for state in states}) > 1
    columns = (
        Column("Model Size", numeric=False),
        *((Column("Mode", numeric=False),) if modes else ()),
        *(column for _, column in axes),
        Column("Switch", numeric=False),
        Column("Mean", "ms"),
        Column("Std Dev", "ms"),
        Column("Speed-up", "×"),
        Column("Speed-up ± 95 %", "×"),
        Column("Peak memory", "MiB"),
        Column("Memory change", "%"),
        Column("Compile + first step", "s"),
        Column("Verdict", numeric=False),
    )
    rows = tuple(
        (
            state.case.model.name,
            *((state.case.mode,) if modes else ()),
            *axis_cells(state.case, axes),
            switch_name(state.case, group[0].case),
            *_figures(state, group[0]),
        )
        for group in groups
        for state in group
    )
    notes = (
        "Each row against the first of its group; a difference is called one only beyond its "
        "95 % interval, judged on logarithms, and 1 %. Compile times are cold: every cell has its "
        "own empty inductor cache, and the figure, which holds one run of the step, is no part of "
        "the mean.",
        *((PAIRED,) if any(state.case.interleaved for state in states) else ()),
        *(line for group in groups for line in sentences(group)),
    )
    return Table("switches", "Switches", columns, rows, notes, number="M15")


def switch_groups(view: RunView) -> list[list[CaseState]]:
    """Timing cases that differ in precision, attention, optimizer or compilation alone."""
    timing = [state for state in view.cases if state.case.probe == "timing"]
    return [group for group in grouped_alike(timing, *SWITCHES) if len(group) > 1]


def sentences(group: list[CaseState]) -> list[str]:
    """The fastest, what makes no difference, what compiling costs, and what could not run."""
    base, *others = group
    name = base.case.model.name
    if base.total is None:
        return why_not(group)
    measured = [(state, found) for state in others if (found := compare(base, state)) is not None]
    lines = []
    if measured:
        best, gain = max(measured, key=lambda pair: pair[1].value)
        lines.append(_fastest(name, base, best, gain))
    even = [switch_name(s.case, base.case) for s, found in measured if not found.changed]
    if even:
        lines.append(f"{name}: {listing(even)} cannot be told from the baseline in these steps.")
    lines += [line for state, _ in measured if (line := _repaid(state, base)) is not None]
    if is_launch_bound(base):
        share = 100 * (base.host_share or 0)
        lines.append(
            f"{name}: the baseline is launch-bound, the host spends {share:.0f} % of the step "
            f"enqueueing; fewer launches help it more than faster kernels {ref(base)}."
        )
    lines += _hosts(name, base, measured)
    return [*lines, *why_not([state for state in others if state.total is None])]


def _fastest(name: str, base: CaseState, best: CaseState, gain: Ratio) -> str:
    switch = switch_name(best.case, base.case)
    assert base.total is not None
    assert best.total is not None
    if not gain.changed or gain.value < 1:
        return f"{name}: no switch makes the step faster {ref(base)}."
    return (
        f"{name}: {switch} is the fastest, {ms(best.total)} against {ms(base.total)}, "
        f"a speed-up of {times(gain)} {ref(base, best)}."
    )


def _hosts(name: str, base: CaseState, measured: list[tuple[CaseState, Ratio]]) -> list[str]:
    """A warning where what differs is the host's launching, which varies between processes."""
    bound = [
        state
        for state, found in measured
        if found.changed and not state.case.compile and is_launch_bound(state)
    ]
    if not bound or base.case.interleaved or not is_launch_bound(base):
        return []
    names = listing(switch_name(state.case, base.case) for state in bound)
    return [
        f"{name}: the steps are launch-bound, and the time that differs with {names} is the "
        f"host's, which also varies from process to process; with --interleave the cases take "
        f"turns and that hits all alike {ref(base, *bound)}."
    ]


def _repaid(state: CaseState, base: CaseState) -> str | None:
    cold = None if state.observed is None else state.observed.compile_ms
    if cold is None or state.total is None or base.total is None:
        return None
    gain = base.total.mean - state.total.mean
    cost = f"compiling took {format_number(cold / 1e3, 1.0)} s"
    name = f"{state.case.model.name}, {switch_name(state.case, base.case)}"
    found = compare(base, state)
    if found is None or not found.changed:
        return f"{name}: {cost}; these steps do not tell whether any repays it {ref(state, base)}."
    if gain <= 0:
        return f"{name}: {cost} and no step repays it {ref(state)}."
    return f"{name}: {cost}, repaid after about {_rough(cold / gain)} steps {ref(state)}."


def _rough(count: float) -> str:
    digits = max(0, len(str(round(count))) - 2)
    return f"{round(count, -digits):,.0f}"


def _figures(state: CaseState, base: CaseState) -> tuple[Cell, ...]:
    cold = None if state.observed is None else state.observed.compile_ms
    compiled: Cell = None if cold is None else Figure(cold / 1e3, 0.1)
    if state.case.compile is None:
        compiled = "eager"
    if state.total is None:
        return (*(status_word(state),) * 6, compiled, "no figure")
    found = None if state is base else compare(base, state)
    before, after = peak_bytes(base), peak_bytes(state)
    return (
        Figure(state.total.mean, state.total.ci95),
        Figure(state.total.std, state.total.ci95),
        *((Figure(1.0, 0.01), None) if state is base else _speed(found)),
        None if after is None else Figure(after / MIB, 10.0),
        None if not before or after is None else _percent(after / before - 1),
        compiled,
        _verdict(state, base, found),
    )


def _percent(change: float) -> Figure:
    return Figure(round(100 * change, 1) + 0.0, 1.0)  # no -0.0


def _speed(found: Ratio | None) -> tuple[Cell, Cell]:
    if found is None:
        return None, None
    return Figure(found.value, found.half or 0.01), Figure(found.half, found.half or 0.01)


def _verdict(state: CaseState, base: CaseState, found: Ratio | None) -> str:
    if state is base:
        return "baseline"
    if found is None:
        return "nothing to compare with"
    if not found.changed:
        return "no difference"
    return "faster" if found.value > 1 else "slower"
