"""M42: what a case that ran out of memory holds at its peak, and what would have made it fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from llmprof.core.events import Environment, Failure
from llmprof.core.predict.advice import advise
from llmprof.core.predict.as_event import room_here
from llmprof.core.predict.attention_tensors import attention_tensors
from llmprof.core.predict.closed_form import HOPPER, Unpredictable, predict
from llmprof.core.predict.part_sizes import PartSize, part_sizes
from llmprof.core.predict.single_tensors import SingleTensor, single_tensors
from llmprof.core.report.sentences import mib, reason, ref
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.units import MIB

MOST = 3  # of the smallest cases: larger ones fail for the same reasons
COLUMNS = (
    Column("What", numeric=False),
    Column("Formula", numeric=False),
    Column("With the numbers", numeric=False),
    Column("Size", "MiB"),
    Column("Known", numeric=False),
)


@dataclass(frozen=True)
class Account:
    """What is alive at the peak, its sum, and the largest single tensors among it."""

    rows: tuple[tuple[Cell, ...], ...]
    total: int
    peak: str  # of which phase


def oom_accounts(view: RunView) -> list[Table]:
    """A table for each of the smallest cases that did not fit."""
    found = []
    for state in view.cases:
        if state.status == "oom" and (account := account_of(state.case, _card(state, view))):
            found.append((account.total, state.index, state, account))
    found.sort(key=lambda each: each[:2])
    return [_table(state, view, account) for _, _, state, account in found[:MOST]]


def account_of(case: Case, environment: Environment | None) -> Account | None:
    """The account by the closed form, or of one attention by its tensors' formulas."""
    if case.probe == "attention":
        tensors = attention_tensors(case)
        rows = tuple(_tensor_row(each, "formula") for each in tensors)
        return Account(rows, sum(each.size for each in tensors), "its largest phase")
    capability = HOPPER if environment is None else environment.capability or HOPPER
    try:
        prediction = predict(case, capability)
    except Unpredictable:
        return None
    formulas = {part.name: part for part in part_sizes(case, capability)}
    rows_of_parts = tuple(
        (name, "alive at the peak", _formula(name, size, formulas), _mib(size), "predicted")
        for name, size in sorted(prediction.breakdown.items(), key=lambda each: -each[1])
    )
    largest = sorted(single_tensors(case, capability), key=lambda each: -each.size)
    singles = tuple(_tensor_row(each, "formula") for each in largest if each.size)
    return Account((*rows_of_parts, *singles), prediction.requested_bytes, prediction.peak_phase)


def _formula(name: str, size: int, parts: dict[str, PartSize]) -> str:
    """How a part comes about, where as much of it is alive as there ever is."""
    part = parts.get(name)
    return part.formula if part is not None and part.size == size else ""


def _tensor_row(tensor: SingleTensor, known: str) -> tuple[Cell, ...]:
    return (tensor.name, tensor.words, tensor.numbers, _mib(tensor.size), known)


def _table(state: CaseState, view: RunView, account: Account) -> Table:
    failure = state.failure
    environment = _card(state, view)
    rows = [*account.rows, ("sum at the peak", f"of {account.peak}", "", _mib(account.total), "")]
    rows += _met(failure)
    if environment is not None and environment.memory_total_bytes:
        total = environment.memory_total_bytes
        rows.append((f"memory of {environment.device_name}", "", "", _mib(total), "read"))
    notes = (
        f"{state.case.label}: {reason(state)} {ref(state)}.",
        "By prediction, not from the allocator's history: the parts are those alive at the "
        "predicted peak; single tensors are within them, and with one a layer there are as many "
        "as layers. What is read is from the moment of the failure.",
        *_would_fit(state, environment),
    )
    key = f"oom-account-{state.index}"
    title = f"Out of memory: {state.case.label}"
    return Table(key, title, COLUMNS, tuple(rows), notes, number="M42")


def _met(failure: Failure | None) -> Iterable[tuple[Cell, ...]]:
    """What the allocator said and held when it failed."""
    if failure is None:
        return
    for name, size in (
        ("asked when it failed", failure.bytes_asked),
        ("allocated then", failure.allocated_bytes),
        ("reserved by the allocator then", failure.reserved_bytes),
        ("free on the card then", failure.free_bytes),
    ):
        if size is not None:
            known = "predicted" if failure.predicted else "read"
            yield (name, f"in {failure.phase}" if failure.phase else "", "", _mib(size), known)


def _would_fit(state: CaseState, environment: Environment | None) -> Iterable[str]:
    """What would have made it fit, and what removes the largest tensors of one attention."""
    if state.case.probe == "attention":
        if state.case.attention == "naive":
            yield "A fused kernel (SDPA) never has the scores in memory: the rest is what is left."
        return
    room = None if environment is None else room_here(environment)
    found = () if room is None else advise(state.case, room)
    for each in found:
        yield f"It fits with {each.text}, {mib(each.peak_bytes)}: `{each.command}`."


def _card(state: CaseState, view: RunView) -> Environment | None:
    return state.environment or view.environment


def _mib(size: int) -> Cell:
    return Figure(size / MIB, 0.1)
