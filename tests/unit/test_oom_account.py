"""The account of a case that did not fit: parts, single tensors, what was asked, what would fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmprof.core import events as ev
from llmprof.core.catalog.models import load_models
from llmprof.core.events import Environment, Failure
from llmprof.core.predict.attention_tensors import attention_tensors
from llmprof.core.predict.closed_form import predict
from llmprof.core.report.alive import account_of
from llmprof.core.report.oom_account import MOST, oom_accounts
from llmprof.core.report.table import Figure, Table
from llmprof.core.spec.case import Case
from llmprof.core.spec.own_model import OwnModel
from llmprof.core.spec.shape import attention_shape
from llmprof.core.state.view import CaseState, RunView

GIB = 1 << 30
CARD = Environment(
    device="cuda:0",
    device_name="Some Card",
    torch="2.11",
    memory_total_bytes=24 * GIB,
    memory_free_bytes=23 * GIB,
    capability=(9, 0),
)


def failed(index: int, case: Case, **failure: object) -> CaseState:
    told = Failure(kind="oom", message="out of memory", phase="backward", **failure)  # type: ignore[arg-type]
    return CaseState(index, case, status="oom", failure=told, environment=CARD)


def sizes(table: Table) -> dict[str, float]:
    found = {}
    for name, _, _, size, _ in table.rows:
        assert isinstance(size, Figure)
        assert isinstance(name, str)
        found[name] = size.value or 0.0
    return found


def test_parts_at_the_peak_sum_to_it_and_the_rest_is_read() -> None:
    case = Case(model=load_models()["large"], context_length=1024)
    state = failed(0, case, bytes_asked=GIB, allocated_bytes=22 * GIB, free_bytes=GIB // 2)
    (table,) = oom_accounts(RunView(environment=CARD, cases=(state,)))
    said, rows = predict(case), sizes(table)
    assert rows["sum at the peak"] == pytest.approx(said.requested_bytes / 2**20)
    assert sum(rows[name] for name in said.breakdown) == pytest.approx(rows["sum at the peak"])
    assert rows["asked when it failed"] == 1024
    assert rows["allocated then"] == 22 * 1024
    assert rows["memory of Some Card"] == 24 * 1024
    scores = next(row for row in table.rows if row[0] == "attention scores of one layer")
    assert scores[1] == "batch × heads × context × context × 4 bytes"
    assert any("1 block a checkpoint" in note and "`llmprof run" in note for note in table.notes)


def test_one_attention_by_its_formulas() -> None:
    case = Case(model=attention_shape(64), probe="attention", context_length=16384, batch_size=8)
    tensors = {each.name: each.size for each in attention_tensors(case)}
    assert tensors["scores"] == 4 * 4 * 8 * 16384**2
    assert tensors["Q, K and V"] == 3 * 4 * 8 * 16384 * 64
    account = account_of(CaseState(0, case), None)
    assert account is not None
    assert account.total == sum(tensors.values())
    fused = Case(model=case.model, probe="attention", attention="sdpa", context_length=16384)
    assert "scores" not in {each.name for each in attention_tensors(fused)}


def test_only_the_smallest_cases_have_an_account() -> None:
    models = load_models()
    cases = [
        failed(index, Case(model=models[name], context_length=2048))
        for index, name in enumerate(("10B", "2.7B", "xl", "large", "medium"))
    ]
    found = oom_accounts(RunView(environment=CARD, cases=tuple(cases)))
    assert [table.key for table in found] == [f"oom-account-{index}" for index in (4, 3, 2)]
    assert len(found) == MOST


def test_what_was_recorded_goes_before_what_is_predicted() -> None:
    case = Case(model=load_models()["large"], context_length=1024)
    logits = 4 * 1024 * 10_000 * 4
    found = ev.MemoryAtFailure(
        case=0, source="cuda allocator", phase="loss", bytes_asked=GIB,
        live={"activations": 3 * GIB, "parameters": GIB},
        largest=(
            ev.LiveAllocation(size=logits, count=2, category="activations", phase="forward",
                              what="model.py:178 forward"),
            ev.LiveAllocation(size=12345, count=1, category="parameters", phase="", what="norm"),
        ),
    )  # fmt: skip
    state = replace(failed(0, case, bytes_asked=GIB), at_failure=found)
    (table,) = oom_accounts(RunView(environment=CARD, cases=(state,)))
    rows = {str(row[0]): row for row in table.rows}
    block = rows["model.py:178 forward (2 blocks)"]
    assert block[1] == "2 tensors × batch × context × vocabulary × 4 bytes"
    assert block[2] == "2 × 4 × 1024 × 10000 × 4"
    assert rows["norm"][1:3] == ("parameters", "1 × 12,345 bytes")
    assert sizes(table)["sum when it failed"] == 4 * 1024
    assert {row[4] for row in table.rows} == {"recorded", "read", ""}
    assert table.notes[1].startswith("From the history of CUDA's allocator")
    assert any("It fits with" in note for note in table.notes)


def test_an_own_model_has_an_account_where_it_was_recorded() -> None:
    case = Case(model=OwnModel("a:build", "/x/a.py", "/x", "a", "build"))
    assert account_of(CaseState(0, case), None) is None
    found = ev.MemoryAtFailure(
        case=0, source="cpu tensors", phase="forward", bytes_asked=GIB,
        live={"activations": GIB}, largest=(),
    )  # fmt: skip
    account = account_of(CaseState(0, case, at_failure=found), None)
    assert account is not None
    assert account.total == GIB


def test_a_failure_without_what_the_card_held_is_read_as_before() -> None:
    line = b'{"kind":"CaseFailed","t":1,"case":0,"failure":{"kind":"oom","message":"m"}}'
    tag = str(ev.CaseFailed.__struct_config__.tag).encode()
    event = ev.decode(line.replace(b"CaseFailed", tag))
    assert isinstance(event, ev.CaseFailed)
    assert event.failure.allocated_bytes is None
