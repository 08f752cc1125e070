"""M42: what was alive in a case that ran out of memory, and what would have made it fit."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.events import Environment, Failure
from llmprof.core.predict.advice import advise
from llmprof.core.predict.as_event import room_here
from llmprof.core.report.alive import Account, account_of, mib_cell
from llmprof.core.report.sentences import mib, reason, ref
from llmprof.core.report.table import Cell, Column, Table
from llmprof.core.state.view import CaseState, RunView

MOST = 3  # of the smallest cases: larger ones fail for the same reasons
COLUMNS = (
    Column("What", numeric=False),
    Column("Formula", numeric=False),
    Column("With the numbers", numeric=False),
    Column("Size", "MiB"),
    Column("Known", numeric=False),
)


def oom_accounts(view: RunView) -> list[Table]:
    """A table for each of the smallest cases that did not fit."""
    found = []
    for state in view.cases:
        if state.status == "oom" and (account := account_of(state, _card(state, view))):
            found.append((account.total, state.index, state, account))
    found.sort(key=lambda each: each[:2])
    return [_table(state, view, account) for _, _, state, account in found[:MOST]]


def oom_account(state: CaseState, view: RunView) -> Table | None:
    """The table of one case that did not fit; None where nothing is known of it."""
    account = account_of(state, _card(state, view))
    return None if account is None else _table(state, view, account)


def _table(state: CaseState, view: RunView, account: Account) -> Table:
    failure = state.failure
    environment = _card(state, view)
    rows = [*account.rows, (*account.sum_row, "", mib_cell(account.total), "")]
    rows += _met(failure)
    if environment is not None and environment.memory_total_bytes:
        total = environment.memory_total_bytes
        rows.append((f"memory of {environment.device_name}", "", "", mib_cell(total), "read"))
    notes = (
        f"{state.case.label}: {reason(state)} {ref(state)}.",
        *account.notes,
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
            yield (name, f"in {failure.phase}" if failure.phase else "", "", mib_cell(size), known)


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
