"""A case beside the others of its run: rates that fall off a cliff, work that costs nothing."""

from __future__ import annotations

import statistics

from llmprof.core.figures import same_machine
from llmprof.core.figures.operations import operations
from llmprof.core.lint.verdict import Context, Verdict, waits_for_host
from llmprof.core.spec.axes import AXES
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.numbers import significant

CLIFF = 0.3  # of the neighbours' rate
NEAREST = 3  # neighbours of less work that are looked at
MORE_WORK, LESS_TIME = 1.5, 0.7  # so much more work in so much less time cannot be
EXPLAINED = {
    "cliff": "Its rate is a fraction of that of smaller cases, as when the driver spills to the "
    "host's memory instead of failing, or the host swaps.",
    "scaling": "It took less time than a case with less work of the same kind.",
    "elsewhere": "It was measured on another machine, with other software or with other settings "
    "than the rest of the run: do not compare them.",
}


def cliffs(view: RunView) -> list[tuple[int, Verdict]]:
    """Cases whose FLOP a second fall far below those of their nearest smaller neighbours."""
    found = []
    for group in _groups(view):
        for position, state in enumerate(group):
            near = [other for other in group[:position] if _one_apart(state.case, other.case)]
            smaller = [_rate(other) for other in near[-NEAREST:]]
            if not smaller:
                continue
            usual, own = statistics.median(smaller), _rate(state)
            if own < CLIFF * usual:
                text = (
                    f"{significant(own)} TFLOP/s, where cases with less work reach "
                    f"{significant(usual)}{_tight(state, view)}"
                )
                found.append((state.index, Verdict("cliff", "warning", text)))
    return found


def costs_nothing(view: RunView) -> list[tuple[int, Verdict]]:
    """Cases that took clearly less time than one with clearly less work."""
    found = []
    for group in _groups(view):
        for position, state in enumerate(group):
            slower = [other for other in group[:position] if _undercuts(state, other)]
            if slower:
                work = _work(state) / _work(slower[0])
                text = (
                    f"it did {significant(work)} × the work of case {slower[0].index + 1} in "
                    f"{significant(_median(state) / _median(slower[0]))} × its time"
                )
                found.append((state.index, Verdict("scaling", "warning", text)))
    return found


def elsewhere(view: RunView) -> list[tuple[int, Verdict]]:
    """Cases of a resumed run that were measured in another environment."""
    if view.environment is None:
        return []
    return [
        (state.index, Verdict("elsewhere", "warning", f"measured elsewhere: {'; '.join(wrong)}"))
        for state in view.cases
        if state.environment is not None
        and (wrong := same_machine.machine_differences(view.environment, state.environment))
    ]


def _groups(view: RunView) -> list[list[CaseState]]:
    """Measured cases that differ in model, batch and context alone, least work first."""
    found: dict[object, list[CaseState]] = {}
    for state in view.cases:
        context = Context(state.environment or view.environment)
        if state.case.probe not in ("timing", "attention") or waits_for_host(state, context):
            continue
        if state.total is not None and state.total.median > 0 and operations(state):
            found.setdefault(_kind(state.case), []).append(state)
    return [sorted(group, key=_work) for group in found.values()]


def _kind(case: Case) -> object:
    return case.probe, *(axis.of(case) for axis in AXES if axis.changes != "work")


def _median(state: CaseState) -> float:
    assert state.total is not None
    return state.total.median


def _work(state: CaseState) -> int:
    return operations(state) or 0


def _rate(state: CaseState) -> float:
    return _work(state) / _median(state) / 1e9


def _undercuts(state: CaseState, other: CaseState) -> bool:
    more = _work(state) >= MORE_WORK * _work(other)
    less = _median(state) < LESS_TIME * _median(other)
    return more and less and _one_apart(state.case, other.case)


def _one_apart(case: Case, other: Case) -> bool:
    """Whether cases of one kind differ in only one of model, batch and context.

    Work of different shape has different rates: long contexts wait for memory, wide models don't;
    and two models of the user's own may have nothing in common.
    """
    apart = (
        case.model != other.model,
        case.batch_size != other.batch_size,
        case.context_length != other.context_length,
    )
    alike = case.probe != "attention" and case.shape is not None and other.shape is not None
    return sum(apart) == 1 and (alike or not apart[0])


def _tight(state: CaseState, view: RunView) -> str:
    environment = state.environment or view.environment
    peak = None if state.memory is None else state.memory.peak_bytes
    total = None if environment is None else environment.memory_total_bytes
    if peak is None or not total:
        return ""
    return f"; its peak memory is {peak / 2**30:.1f} of {total / 2**30:.1f} GiB"
