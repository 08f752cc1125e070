"""M40: attention kernels beside naive attention: times, errors, and what share of the ceilings.

What is asked for may run as another kernel (SDPA as cudnn): rows stand by what ran, and how far
one kernel's measurements are apart is how far kernels must be to be ranked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llmprof.core.events import AttentionErrors, Environment
from llmprof.core.figures.throughput import ceiling_of
from llmprof.core.predict.flops import forward_flops
from llmprof.core.report.case_groups import axes_of, axis_cells, status_word
from llmprof.core.report.comparisons import grouped_alike
from llmprof.core.report.growth_fits import LAUNCH_BOUND
from llmprof.core.report.sentences import is_launch_bound, ref, why_not
from llmprof.core.report.subject import Subject, subject_of
from llmprof.core.report.table import Cell, Column, Figure, Prose, Table
from llmprof.core.spec.axes import BY_FIELD
from llmprof.core.spec.case import Case
from llmprof.core.spec.own_function import is_function
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.summary import Summary
from llmprof.core.system.numbers import format_number, significant

BACKWARD = 2.5  # of the forward's operations: a fused backward computes the scores again
TENSORS = {"forward": 4, "backward": 8}  # Q, K, V, O read or written; and their gradients
KERNEL = ("attention", "sdpa_backend", "compile")
KEPT = ("context_length", "precision", *KERNEL)


def attention_kernels(view: RunView) -> list[Table]:
    """A table for each width and dtype: a row for each context and kernel."""
    found = kernel_groups(view)
    axes = axes_of((state for group in found.values() for state in group), *KEPT)
    return [_table(view, group, axes) for group in found.values()]


def kernel_groups(view: RunView) -> dict[tuple[str, str], list[CaseState]]:
    """Attention cases timed with a cold cache, by precision and width, in order."""
    found: dict[tuple[str, str], list[CaseState]] = {}
    for state in view.cases:
        if state.case.probe == "attention" and state.case.cold_cache:
            found.setdefault((state.case.precision, state.case.model.name), []).append(state)
    return found


def kernel_of(case: Case) -> str:
    """The name of what computes a case's attention."""
    kind = BY_FIELD["attention"].brief(case.attention)
    name = case.sdpa_backend or {"sdpa": "SDPA"}.get(kind, kind)
    return name if case.compile is None else f"{name}, compiled"


def ran_as(state: CaseState) -> str:
    """The kernel that ran, where that was seen; else what was asked for."""
    seen = None if state.observed is None else state.observed.attention_backend
    if seen is None or state.case.compile is not None or is_function(state.case.attention):
        return kernel_of(state.case)
    return seen


@dataclass(frozen=True)
class Ranking:
    """Kernels at the longest context at which one ran that stands, fastest first, each once.

    again: further measurements of the first one; alike: kernels that are no further from it than
    measurements of one kernel are from each other. left_out: those that ran there and do not stand,
    each with why: checks that say no, or that the host sets its pace.
    """

    fastest: tuple[CaseState, ...]
    again: tuple[CaseState, ...]
    alike: tuple[CaseState, ...]
    left_out: tuple[tuple[CaseState, tuple[str, ...]], ...]


def ranking(subject: Subject, states: Sequence[CaseState]) -> Ranking | None:
    """The kernels of one table in their order; None where none that stands ran."""
    why = {state.index: _why_not_ranked(subject, state) for state in states}
    ran = [state for state in states if state.total is not None]
    standing = [state for state in ran if not why[state.index]]
    if not standing:
        return None
    longest = max(state.case.context_length for state in standing)
    there = [state for state in ran if state.case.context_length == longest]
    kernels: dict[str, list[CaseState]] = {}
    for state in sorted((each for each in there if not why[each.index]), key=_both_ms):
        kernels.setdefault(ran_as(state), []).append(state)
    fastest = tuple(measured[0] for measured in kernels.values())
    apart = max(_both_ms(measured[-1]) / _both_ms(measured[0]) for measured in kernels.values())
    return Ranking(
        fastest,
        tuple(kernels[ran_as(fastest[0])][1:]),
        tuple(each for each in fastest[1:] if _both_ms(each) <= apart * _both_ms(fastest[0])),
        tuple((state, why[state.index]) for state in there if why[state.index]),
    )


def _why_not_ranked(subject: Subject, state: CaseState) -> tuple[str, ...]:
    checks = subject.failed_checks(state)
    return (*checks, LAUNCH_BOUND) if is_launch_bound(state) else checks


def _both_ms(state: CaseState) -> float:
    assert state.total is not None
    return state.total.median


def in_rows(states: Iterable[CaseState]) -> list[list[CaseState]]:
    """Cases as the table's rows have them: a group for each context, in it by what ran."""
    groups = grouped_alike(states, *(BY_FIELD[name] for name in KERNEL))
    return [_by_kernel(group) for group in groups]


def _by_kernel(group: Sequence[CaseState]) -> list[CaseState]:
    """Measurements of one kernel beside each other, kernels in the order of the first of each."""
    order = list(dict.fromkeys(map(ran_as, group)))
    return sorted(group, key=lambda state: order.index(ran_as(state)))


def _table(view: RunView, states: list[CaseState], axes: list[tuple[str, Column]]) -> Table:
    columns = (
        Column("Context", "tokens"),
        *(column for _, column in axes),
        Column("Kernel", numeric=False),
        Column("Ran as", numeric=False),
        Column("Pace set by", numeric=False),
        Column("Forward", "ms"),
        Column("Backward", "ms"),
        Column("Both", "ms"),
        Column("Over naive", "×"),
        Column("Output error"),
        Column("Gradient error"),
        Column("Forward", "TFLOP/s"),
        Column("Forward of matmul ceiling", "%"),
        Column("Forward", "GB/s"),
        Column("Forward of copy ceiling", "%"),
        Column("Backward", "TFLOP/s"),
        Column("Backward of matmul ceiling", "%"),
    )
    rows = []
    for group in in_rows(states):
        naive = next((s for s in group if kernel_of(s.case) == "naive"), None)
        for state in group:
            environment = state.environment or view.environment
            head = (state.case.context_length, *axis_cells(state, axes))
            rows.append((*head, kernel_of(state.case), *_cells(state, naive, environment)))
    first = states[0].case
    work = f"batch {first.batch_size}, {first.precision}, causal"
    title = f"Attention kernels, {first.model.name}, {work}"
    notes = (*_notes(view, states), *_best(subject_of(view), states), *why_not(states))
    return Table("attention-kernels", title, columns, tuple(rows), notes, number="M40")


def _cells(
    state: CaseState, naive: CaseState | None, environment: Environment | None
) -> tuple[Cell, ...]:
    if state.total is None:
        return ("", "", status_word(state), *(None for _ in range(11)))
    forward, backward = state.summaries.get("forward"), state.summaries.get("backward")
    seen = state.observed
    plain = None if naive is None or naive.total is None else naive.total.median
    if naive is None or is_launch_bound(naive) or is_launch_bound(state):
        plain = None
    return (
        "" if seen is None else seen.attention_backend or "",
        _pace(state, environment),
        _median(forward),
        _median(backward),
        _median(state.total),
        None if plain is None else Figure(plain / state.total.median, 0.01),
        *_errors(None if seen is None else seen.errors),
        *_rates(state, "forward", forward, environment),
        *_rates(state, "backward", backward, environment)[:2],
    )


def _pace(state: CaseState, environment: Environment | None) -> str:
    """Who sets a row's pace; "" where that is not known, as on a CPU."""
    if state.launch_bound is None or (environment is not None and environment.device == "cpu"):
        return ""
    return "host" if is_launch_bound(state) else "card"


def _median(found: Summary | None) -> Cell:
    return None if found is None else Figure(found.median, found.ci95)


def _errors(found: AttentionErrors | None) -> tuple[Cell, Cell]:
    if found is None:
        return None, None
    gradients = [each for each in (found.query, found.key, found.value) if each is not None]
    return _error(found.output), _error(max(gradients, default=None))


def _error(value: float | None) -> Cell:
    return None if value is None else significant(value, 2)


def _rates(
    state: CaseState, phase: str, found: Summary | None, environment: Environment | None
) -> tuple[Cell, Cell, Cell, Cell]:
    """TFLOP/s, its share of the matmul ceiling, GB/s, its share of the copy's."""
    if found is None or found.median <= 0:
        return (None,) * 4
    tflops = operations(state.case, phase) / found.median / 1e9
    gbs = least_bytes(state.case, phase) / found.median / 1e6
    matmul = ceiling_of(state.case, environment)
    known = None if environment is None else environment.ceilings
    copy = None if known is None else known.copy_gbs
    return (
        Figure(tflops, 0.1 * tflops),
        None if matmul is None else Figure(100 * tflops / matmul, 0.1),
        Figure(gbs, 0.1 * gbs),
        None if copy is None else Figure(100 * gbs / copy, 0.1),
    )


def operations(case: Case, phase: str) -> float:
    """Causal operations: 2·B·L·(L+1)·d forward, backward 2.5 times that."""
    forward = forward_flops(case, "causal")
    return forward if phase == "forward" else BACKWARD * forward


def least_bytes(case: Case, phase: str) -> int:
    """Bytes that cannot but be moved: Q, K, V and the output, and back their gradients too."""
    item = 4 if case.precision in ("fp32", "tf32") else 2
    return TENSORS[phase] * item * case.tokens * case.reference.d_model


def _notes(view: RunView, states: list[CaseState]) -> list[str]:
    references = sorted(
        {s.observed.errors.reference for s in states if s.observed and s.observed.errors}
    )
    lines = [
        "Causal, without heads, tensors of the dtype itself (no autocast). Medians of repeated "
        "calls, each after the whole L2 cache was overwritten, forward and backward apart; both: "
        "of their sums. Over naive: by both, where the host sets the pace of neither. "
        "Where it does, a row says nothing of its kernel, and none is ranked.",
        f"Errors: ‖difference‖ / ‖reference‖ against naive attention in "
        f"{' or '.join(references) or 'a wider dtype'} on the same inputs; of the gradients the "
        "largest of Q, K and V.",
        "TFLOP/s count causal operations (2·B·L²·d, backward 2.5 times that), GB/s the bytes that "
        "cannot but be moved, so naive attention moves many times more.",
    ]
    if view.environment is None or view.environment.ceilings is None:
        lines.append(
            Prose("Shares of ceilings need `llmprof calibrate` to have been run on this device.")
        )
    lines += _ceilings_note(view.environment, states[0].case)
    unknown = {s.observed.errors.reason for s in states if s.observed and s.observed.errors}
    lines += [f"No error where the reference does not fit: {why}." for why in unknown if why]
    return lines


def _ceilings_note(environment: Environment | None, case: Case) -> list[Prose]:
    """What the shares are of."""
    known = None if environment is None else environment.ceilings
    matmul = ceiling_of(case, environment)
    if known is None or matmul is None or known.copy_gbs is None:
        return []
    return [
        Prose(
            f"Ceilings, as `llmprof calibrate` reached them here: {format_number(matmul)} TFLOP/s "
            f"of matrix products in {case.precision}, {format_number(known.copy_gbs)} GB/s copied."
        )
    ]


def _best(subject: Subject, states: list[CaseState]) -> list[str]:
    """The fastest kernel at the longest context at which anything that stands ran."""
    found = ranking(subject, states)
    if found is None:
        return []
    best = found.fastest[0]
    text = f"At {best.case.context_length:,} tokens {ran_as(best)} takes least"
    if found.left_out:
        text += " of those that stand"
    text += f", {_told(best)} forward and backward, one process a measurement {ref(best)}"
    if found.again:
        again = ", ".join(f"{_told(each)} as {kernel_of(each.case)}" for each in found.again)
        text += f"; measured again, {again} {ref(*found.again)}"
    if found.alike:
        alike = ", ".join(f"{ran_as(each)}, {_told(each)}" for each in found.alike)
        text += f"; no further from it than one kernel's measurements are apart: {alike}"
    if found.left_out:
        left_out = (f"{kernel_of(s.case)}, {_told(s)} ({', '.join(w)})" for s, w in found.left_out)
        text += f"; left out, since a check says no to them: {'; '.join(left_out)}"
    return [f"{text}."]


def _told(state: CaseState) -> str:
    assert state.total is not None
    return f"{format_number(_both_ms(state), state.total.ci95)} ms"
