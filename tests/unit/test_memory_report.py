"""Tables of predicted, measured and recorded memory, and where a card's memory is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from llmprof.core import events as ev
from llmprof.core.catalog.models import load_models
from llmprof.core.figures.card_memory import memory_when_recorded
from llmprof.core.predict.as_event import predicted
from llmprof.core.predict.closed_form import predict
from llmprof.core.report.case_csv import flat
from llmprof.core.report.exports import memory_document
from llmprof.core.report.formats import render as render_as
from llmprof.core.report.markdown import render
from llmprof.core.report.memory_timeline import (
    largest_allocations,
    memory_by_phase,
    memory_tables,
    peaks,
    reconciliation,
    saved,
)
from llmprof.core.report.peak_memory import peak_memory
from llmprof.core.report.prediction_check import out_of_memory_advice, prediction_against
from llmprof.core.report.single_tensors import recorded_tensors
from llmprof.core.report.table import Figure
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import Experiment
from llmprof.core.state.reducer import Reducer
from llmprof.core.state.view import RunView
from llmprof.core.store.pack import open_view

RECORDED = Path(__file__).parents[2] / "tui" / "demo-memory.llmprof"
GIB = 1 << 30
MIB = 1 << 20
MODEL = load_models()["small"]
CASES = (
    Case(model=MODEL, probe="memory", mode="train", context_length=128),
    Case(model=MODEL, probe="memory", mode="train", context_length=128, precision="bf16"),
    Case(model=load_models()["2.7B"], mode="train", context_length=1024),
)
ENVIRONMENT = ev.Environment(
    device="cuda:0",
    device_name="NVIDIA H100 80GB HBM3",
    capability=(9, 0),
    memory_total_bytes=79 << 30,
    memory_free_bytes=79 << 30,
)


def timeline(case: int, peak: int, **fields: object) -> ev.MemoryTimeline:
    known = {
        "kind": "MemoryTimeline",
        "case": case,
        "artifact": f"memory-{case}.json.gz",
        "source": "cuda allocator",
        "steps": 1,
        "entries": 9,
        "peak_bytes": peak,
        "at_peak": {"parameters": peak - 7, "temporaries": 7},
        "before": {"parameters": 100 * MIB},
        "phases": [
            {"step": 0, "phase": "forward", "peak_bytes": peak, "after_bytes": 150 * MIB},
        ],
        "largest": [
            {
                "size": MIB,
                "count": 3,
                "category": "activations",
                "phase": "forward",
                "what": "model.py:7 f",
            }
        ],
        "saved": [{"module": "blocks.*.ffn", "bytes": 12 * MIB, "tensors": 24, "modules": 12}],
    }
    return msgspec.convert({**known, **fields}, ev.MemoryTimeline)


def edges(case: int, requested: int, allocated: int) -> ev.MemoryStep:
    edge = ev.MemoryEdge(
        phase="forward",
        allocated_bytes=allocated,
        peak_bytes=allocated,
        requested_peak_bytes=requested,
    )
    return ev.MemoryStep(case=case, edges=(edge,), source="cuda allocator")


def view(*events: ev.Event) -> RunView:
    reducer = Reducer()
    experiment = Experiment(name="memory", models=(MODEL,))
    reducer.apply(ev.RunStarted(run_id="r", experiment=experiment, cases=CASES, command=()))
    reducer.apply(ENVIRONMENT)
    for index in range(len(CASES)):
        reducer.apply(ev.CaseStarted(case=index, pid=1))
    for event in events:
        reducer.apply(event)  # type: ignore[arg-type]
    return reducer.view()


OOM = ev.CaseFailed(case=2, failure=ev.Failure(kind="oom", message="out of memory"))


def value(cell: object) -> float:
    assert isinstance(cell, Figure)
    assert cell.value is not None
    return cell.value


def test_prediction_stands_beside_what_was_measured_and_beside_an_oom() -> None:
    said = predict(CASES[0])
    measured = said.requested_bytes - MIB
    made = prediction_against(view(edges(0, measured, said.allocated_low), OOM))
    assert made is not None
    first, oom = made.rows
    headings = [column.header for column in made.columns]
    assert headings[1:4] == [
        f"Allocated, {what}" for what in ("predicted from", "predicted to", "measured")
    ]
    assert headings[4:6] == [f"Requested, {what}" for what in ("predicted", "measured")]
    assert value(first[4]) * MIB == pytest.approx(said.requested_bytes)
    assert value(first[6]) == pytest.approx(100 * (said.requested_bytes / measured - 1))
    assert first[7] == "fits"
    assert value(oom[4]) * MIB == pytest.approx(predict(CASES[2]).requested_bytes)
    assert oom[3] == oom[5] == Figure(None, 0.1)
    assert (oom[7], oom[8]) == ("does not fit", "OOM")
    assert any("assume a CUDA context of 300 to 1,300 MiB" in note for note in made.notes)


def test_the_context_that_a_verdict_allows_for_is_said() -> None:
    said = predicted(0, CASES[0], free_bytes=80 << 30, context_bytes=528 * MIB)
    assert said is not None
    made = prediction_against(view(said, edges(0, said.requested_bytes, said.allocated_low)))
    assert made is not None
    assert [note for note in made.notes if "CUDA context" in note] == [
        "Verdicts allow for a CUDA context of at least 528 MiB, as measured on this card."
    ]


def test_an_oom_row_gets_commands_that_fit() -> None:
    made = out_of_memory_advice(view(OOM))
    assert made is not None
    commands = [str(row[3]) for row in made.rows]
    assert any("--batch-size 2" in command for command in commands)
    assert all(command.startswith("`llmprof run --model-size 2.7B") for command in commands)
    assert out_of_memory_advice(view()) is None


def test_a_run_on_the_cpu_is_not_compared_with_a_cards_prediction() -> None:
    reducer = Reducer()
    experiment = Experiment(name="memory", models=(MODEL,))
    reducer.apply(ev.RunStarted(run_id="r", experiment=experiment, cases=CASES, command=()))
    reducer.apply(ev.Environment(device="cpu", device_name="cpu"))
    reducer.apply(ev.CaseStarted(case=0, pid=1))
    reducer.apply(edges(0, 5, 6))
    assert prediction_against(reducer.view()) is None


def test_peaks_by_context_and_the_change_against_fp32() -> None:
    made = peaks(view(timeline(0, 300 * MIB), timeline(1, 260 * MIB)))
    assert made is not None
    assert [row[4] for row in made.rows] == ["fp32", "bf16"]
    assert [value(row[5]) for row in made.rows] == [300, 260]
    assert made.rows[0][6] == ""
    assert value(made.rows[1][6]) == -40


def test_what_the_first_steps_make_is_called_the_new_baseline() -> None:
    after = {"parameters": 100 * MIB, "optimizer state": 200 * MIB}
    event = timeline(0, 300 * MIB, before={"parameters": 100 * MIB}, after=after)
    (state, *_) = view(event).cases
    (said,) = (note for note in memory_by_phase(state, event).notes if "baseline" in note)
    assert said == (
        "The recorded steps made what stays between steps, in MiB: optimizer state 200.0. The "
        "level between steps rose from 100.0 to 300.0 MiB, the new baseline."
    )
    warm = timeline(0, 300 * MIB, before=after, after=after)
    assert not any("baseline" in note for note in memory_by_phase(state, warm).notes)


def test_both_kinds_of_peak_are_named_and_allocated_bytes_stand_first() -> None:
    recording = timeline(0, 300 * MIB, allocated_peak_bytes=303 * MIB)
    seen = view(recording, edges(0, 300 * MIB, 303 * MIB))
    (peaks_table,) = (table for table in memory_tables(seen) if table.key == "peak-by-context")
    by_phase = peak_memory(seen)
    predicted_table = prediction_against(seen)
    assert by_phase is not None
    assert predicted_table is not None
    for table in (peaks_table, by_phase, predicted_table):
        headings = [column.header for column in table.columns]
        kinds = [
            word
            for heading in headings
            if "change from" not in heading
            for word in ("allocated", "requested")
            if word in heading.lower()
        ]
        assert kinds == sorted(kinds)  # allocated first
        assert set(kinds) == {"allocated", "requested"}
        said = " ".join(table.notes)
        assert "llocated bytes" in said
        assert "equested bytes" in said
        assert not any(heading in ("Peak", "Peak memory", "Memory") for heading in headings)
    row = flat(seen.cases[0])
    assert (row["peak_allocated_bytes"], row["peak_requested_bytes"]) == (303 * MIB, 300 * MIB)
    assert row["peak_resident_bytes"] is None
    data = memory_document(seen.cases[0])
    assert data is not None
    assert data["peak_allocated_bytes"] == 303 * MIB
    assert data["peak_requested_bytes"] == 300 * MIB


def test_tables_of_one_recording() -> None:
    event = timeline(0, 300 * MIB, allocated_peak_bytes=303 * MIB, requested_peak_bytes=300 * MIB)
    (state, *_) = view(event).cases
    table = memory_by_phase(state, event)
    assert [value(cell) for cell in table.rows[0][2:]] == [300, 150, 50]
    assert any("3.00 MiB larger" in note for note in table.notes)
    assert value(largest_allocations(state, event).rows[0][2]) == 3
    assert [value(cell) for cell in saved(state, event).rows[0][3:]] == [1, 12]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"overflow": True}, "ring was full"),
        ({"requested_peak_bytes": 299 * MIB}, "should agree"),
        ({"snapshot": "snapshot-0.pickle"}, "artifacts/snapshot-0.pickle"),
    ],
)
def test_what_is_to_know_of_a_recording_is_said(fields: dict[str, object], said: str) -> None:
    event = timeline(0, 300 * MIB, **fields)
    (state, *_) = view(event).cases
    assert any(said in note for note in memory_by_phase(state, event).notes)


def test_a_recording_without_a_card_says_so_once_and_why_there_is_no_snapshot() -> None:
    made = peaks(view(timeline(0, 300 * MIB, source="cpu tensors")))
    assert made is not None
    assert any("No card" in note for note in made.notes)
    assert not any("snapshot" in note for note in made.notes)
    asked = view(timeline(0, 300 * MIB, source="cpu tensors"))
    state = replace(asked.cases[0], case=msgspec.structs.replace(CASES[0], trace=True))
    made = peaks(replace(asked, cases=(state, *asked.cases[1:])))
    assert made is not None
    assert any("No snapshot" in note for note in made.notes)


def card(*processes: ev.CardProcess | None, used: int = 900) -> ev.CardSample:
    known = tuple(process for process in processes if process is not None)
    return ev.CardSample(
        index=0,
        metrics={"memory_used": ev.Metric(float(used * MIB))},
        processes=None if None in processes else known,
    )


OWN = ev.CardProcess(pid=1, memory_bytes=600 * MIB, ours=True)
OTHER = ev.CardProcess(pid=2, memory_bytes=250 * MIB)
OWN_UNSEEN = ev.CardProcess(pid=90_001, memory_bytes=600 * MIB)  # a pid of the host


def held(sample: ev.CardSample | None) -> ev.MemoryTimeline:
    return msgspec.structs.replace(
        timeline(0, 300 * MIB),
        allocated_bytes=200 * MIB,
        reserved_bytes=220 * MIB,
        driver_used_bytes=890 * MIB,
        card=sample,
    )


def test_context_allocated_cached_and_others_sum_to_what_is_used() -> None:
    found = memory_when_recorded(held(card(OWN, OTHER)))
    assert found is not None
    assert found.complete
    parts = (found.allocated, found.cached, found.context, found.others, found.rest)
    assert [part // MIB for part in parts if part is not None] == [200, 20, 380, 250, 50]
    assert sum(part for part in parts if part is not None) == found.used == 900 * MIB


@pytest.mark.parametrize(
    ("sample", "why"),
    [
        (None, "NVML could not be read"),
        (card(None), "process list was not read"),
        (card(OTHER), "not in the driver's list"),
        (card(ev.CardProcess(pid=1, ours=True)), "does not say how much"),
        (card(OWN, OTHER, used=500), "another moment"),
    ],
)
def test_what_cannot_be_read_is_unknown_with_its_reason(
    sample: ev.CardSample | None, why: str
) -> None:
    found = memory_when_recorded(held(sample))
    assert found is not None
    assert found.context is None
    assert not found.complete
    assert why in (found.reason or "")
    assert found.allocated + found.cached + (found.others or 0) + found.rest == found.used
    made = reconciliation(view(held(sample)))
    assert made is not None
    assert made.rows[0][1] == Figure(None, 0.1)
    assert any(why.lower() in note.lower() for note in made.notes)


def test_in_a_container_the_context_is_what_the_card_grew_by() -> None:
    before = msgspec.structs.replace(held(card(OTHER, OWN_UNSEEN)), driver_before_bytes=300 * MIB)
    found = memory_when_recorded(before)
    assert found is not None
    assert (found.context, found.others, found.rest) == (380 * MIB, None, 300 * MIB)
    assert not found.complete
    made = reconciliation(view(before))
    assert made is not None
    assert [value(cell) for cell in made.rows[0][1:4]] == [380, 200, 20]
    assert value(made.rows[0][5]) == 300
    assert any("grew by" in note for note in made.notes)


def test_a_card_that_another_emptied_meanwhile_is_not_reconciled() -> None:
    event = msgspec.structs.replace(held(card(OTHER)), driver_before_bytes=700 * MIB)
    found = memory_when_recorded(event)
    assert found is not None
    assert (found.context, found.rest) == (None, 680 * MIB)
    assert "another moment" in (found.reason or "")


def test_a_run_without_a_card_has_nothing_to_reconcile() -> None:
    assert memory_when_recorded(timeline(0, 5)) is None


def test_the_stack_of_an_allocation_is_in_the_json_and_its_first_own_frame_in_the_table() -> None:
    stack = ["torch/nn/functional.py:1 linear", "work/model.py:7 f", "work/train.py:9 main"]
    row = {"size": MIB, "count": 3, "category": "activations", "phase": "forward"}
    event = timeline(0, 300 * MIB, largest=[{**row, "what": "model.py:7 f", "stack": stack}])
    document = json.loads(render_as(view(event), "json"))
    assert document["cases"][0]["recording"]["largest"][0]["stack"] == stack
    assert document["cases"][1]["recording"] is None
    text = render(view(event))
    assert "model.py:7 f" in text
    assert "train.py" not in text


def test_single_tensors_stand_beside_what_was_recorded() -> None:
    """M38: of the cases that the memory probe records, in MiB; 2.7B was not to be recorded."""
    made = recorded_tensors(view(timeline(0, 300 * MIB)))
    assert made is not None
    assert made.number == "M38"
    models = {str(row[0]).split(" · ")[0] for row in made.rows}
    assert models == {"small"}
    mib = {(str(row[0]).split(" · ")[3], row[1]): row[4] for row in made.rows}
    tokens = 4 * 128
    for precision, item in (("fp32", 4), ("bf16", 2)):
        assert value(mib[precision, "residual stream, one activation"]) == 1.5  # 512 × 768 × 4
        assert value(mib[precision, "attention scores of one layer"]) == 3 * item / 4
        assert value(mib[precision, "logits"]) == pytest.approx(tokens * 10_000 * item / MIB)
    plain = replace(view(), cases=view().cases[2:])
    assert recorded_tensors(plain) is None


def test_the_report_holds_them_all() -> None:
    text = render(view(timeline(0, 300 * MIB), edges(0, 5 * MIB, 6 * MIB), OOM))
    for title in (
        "Peak memory by context length",
        "Largest allocations at the peak",
        "Single tensors",
        "Memory: predicted and measured",
        "What fits instead",
    ):
        assert title in text


def test_a_recording_of_a_card_adds_up_and_its_parts_are_all_known() -> None:
    view = open_view(RECORDED)
    for state in view.cases:
        event = state.memory_timeline
        assert event is not None
        found = memory_when_recorded(event)
        assert found is not None
        parts = (found.context, found.allocated, found.cached, found.others, found.rest)
        known = [part for part in parts if part is not None]
        assert len(known) == 5
        assert sum(known) == found.used
        assert 0.3 * GIB < (found.context or 0) < 1.3 * GIB
        assert 0 <= (found.rest or 0) < 0.01 * found.used
    rest = memory_by_phase(view.cases[0], view.cases[0].memory_timeline or timeline(0, 5)).rows[-1][
        -1
    ]
    assert rest == "under 0.01"
