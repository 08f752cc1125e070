"""What tables and checks say of models of the user's own."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec
import pytest

from llmprof.core import events as ev
from llmprof.core.document.results import findings_text
from llmprof.core.document.sources import sources_of
from llmprof.core.document.tables import tables_of
from llmprof.core.events.kernel_rows import PhaseTimeline
from llmprof.core.lint import lint
from llmprof.core.predict.closed_form import predict
from llmprof.core.report.case_csv import to_csv
from llmprof.core.report.case_groups import axis_value
from llmprof.core.report.coverage import coverage
from llmprof.core.report.kernel_timeline import timeline_table
from llmprof.core.report.memory_timeline import memory_by_phase
from llmprof.core.report.peak_memory import peak_memory
from llmprof.core.report.prediction_parts import part_tables
from llmprof.core.report.predictions import PredictedRow
from llmprof.core.report.step_log import step_log
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.own_model import OwnModel
from llmprof.core.spec.shape import ModelShape
from llmprof.core.state.view import CaseState
from llmprof.core.store.journal import replay
from tests.builders.handmade import write
from tests.builders.planted import Times, around, case, memory, observed, run, view

NANO = OwnModel("nano:build", "/m/nano.py", "/m", "nano", "build", content="0" * 16)
VISION = NANO._replace(name="vision:build", path="/m/vision.py", module="vision")
LLAMA = NANO._replace(name="hf:llama", path="/m/config.json", module="", factory="")


def built(index: int, *, loss_inside: bool = False) -> ev.ModelBuilt:
    return ev.ModelBuilt(
        case=index, parameters=1000, parameter_tensors=2, parameter_dtypes=("float32",),
        form="module(ids, targets)", loss_inside=loss_inside,
    )  # fmt: skip


def measured(*cases: tuple[Case, float, int]) -> dict[int, set[str]]:
    """The rules that speak of cases of so many ms and operations."""
    events: list[ev.Event] = []
    for index, (each, ms, flops) in enumerate(cases):
        seen = observed(index, each, forward_flops=flops)
        events += run(index, each, {"forward": around(ms)}, built(index), seen)
    said = lint(view([each for each, _, _ in cases], events))
    return {index: {verdict.rule for verdict in each} for index, each in said.items()}


def test_models_of_ones_own_are_no_neighbours_of_each_other() -> None:
    small, large = (case(model=each, mode="forward") for each in (VISION, NANO))
    said = measured((small, 100.0, 10**9), (large, 20.0, 2 * 10**9))
    assert "scaling" not in said[1]
    said = measured((small, 1.0, 10**9), (large, 200.0, 2 * 10**9))
    assert "cliff" not in said[1]


def test_batches_of_a_model_of_ones_own_still_are() -> None:
    one, four = (case(model=NANO, mode="forward", batch_size=size) for size in (1, 4))
    assert "scaling" in measured((one, 100.0, 10**9), (four, 20.0, 4 * 10**9))[1]
    assert "cliff" in measured((one, 1.0, 10**9), (four, 200.0, 4 * 10**9))[1]


@pytest.mark.parametrize(
    ("model", "attention", "shown"),
    [
        (NANO, "naive", "its own"),
        (NANO, "sdpa", "sdpa"),
        (LLAMA, "naive", "naive"),
        (case().model, "naive", "naive"),
    ],
)
def test_no_table_says_naive_of_an_attention_that_the_factory_chose(
    model: ModelShape | OwnModel, attention: str, shown: str
) -> None:
    state = CaseState(0, case(model=model, attention=attention))
    assert axis_value(state, "attention") == shown


def of_its_own(index: int, optimizer: str, form: str = "") -> ev.ModelBuilt:
    return msgspec.structs.replace(built(index), optimizer=optimizer, form=form)


def test_an_optimizer_of_its_own_is_shown_as_what_it_is() -> None:
    """In the column whose words are AdamW's implementations."""
    cases = [
        *(case(model=NANO, mode=mode) for mode in ("forward", "train")),
        case(model=NANO, optimizer="fused"),
        *(case(model=each, optimizer="foreach") for each in (VISION, case().model)),
    ]
    times: Times = {"forward": around(20.0), "backward": around(40.0), "optimizer": around(1.0)}
    failed = ev.CaseFailed(case=2, failure=ev.Failure(kind="unsupported", message="its own"))
    events = [
        *run(0, cases[0], {"forward": around(20.0)}, of_its_own(0, ev.ITS_OWN)),
        *run(1, cases[1], times, of_its_own(1, "fused SGD")),
        failed,
        *run(3, cases[3], times, built(3)),
        *run(4, cases[4], times),
    ]
    seen = view(cases, events)
    shown = ["fused SGD", "fused SGD", "fused", "foreach", "foreach"]
    assert [axis_value(state, "optimizer") for state in seen.cases] == shown
    assert [row["optimizer"] for row in csv.DictReader(to_csv(seen).splitlines())] == shown
    grid = coverage(seen)
    assert grid is not None
    assert len(grid.rows) == 4  # the modes of a configuration stand in one row
    again = view(cases, [*events, ev.CaseStarted(case=1, pid=1)])  # another attempt
    assert axis_value(again.cases[1], "optimizer") == "fused SGD"


def test_a_journal_of_before_tells_an_optimizer_of_its_own_by_the_form(tmp_path: Path) -> None:
    old = of_its_own(0, "", form="module(ids), loss(output, batch), with an optimizer of its own")
    plan = Experiment(name="by-hand", models=(NANO,))
    started = ev.RunStarted(run_id="r", experiment=plan, cases=(case(model=NANO),), command=())
    replayed = replay(write(tmp_path / "journal.jsonl", [started, old]))
    assert axis_value(replayed.cases[0], "optimizer") == "its own"


@pytest.mark.parametrize(("optimizer", "shown"), [("", True), ("SGD", False)])
def test_what_adamw_moves_and_a_fused_one_are_not_said_of_another(
    optimizer: str, shown: bool
) -> None:
    model = msgspec.structs.replace(of_its_own(0, optimizer), parameters=100_000_000)
    times: Times = {
        "forward": around(20.0), "backward": around(40.0), "optimizer": around(30.0),
    }  # fmt: skip
    seen = view([case(model=NANO)], run(0, case(model=NANO), times, model))
    steps = tables_of(sources_of([(seen, None)])).steps
    assert steps is not None
    names = [column.header for column in steps.table.columns]
    assert ("Optimizer moves" in names) == shown
    assert ("--optimizer foreach,fused" in findings_text(seen)) == shown


def test_no_table_has_a_loss_phase_where_forward_computes_it() -> None:
    cases = [case(model=NANO, mode="forward-backward"), case(model=VISION, mode="forward-backward")]
    times: Times = {"forward": around(20.0), "backward": around(40.0)}
    events = [
        *run(0, cases[0], times, built(0, loss_inside=True)),
        *run(1, cases[1], {**times, "loss": around(1.0)}, built(1)),
    ]
    levels = memory(0, dict.fromkeys(("start", "forward", "loss", "backward", "zero_grad"), 1))
    nothing = dict.fromkeys(
        ("busy_ms", "work_ms", "kernels_ms", "memory_ops_ms", "to_device_ms", "to_host_ms",
         "gemm_ms", "waiting_ms", "gaps"), 0.0
    )  # fmt: skip
    parts = tuple(PhaseTimeline(phase=p, wall_ms=1.0, **nothing) for p in ("forward", "loss"))
    facts = ev.TimelineFacts(case=0, source="cpu", parts=parts, verdict="n/a")
    seen = view(cases, [*events, levels, facts])
    lines = timeline_table(seen)
    assert lines is not None
    assert [row[1] for row in lines.rows] == ["forward"]
    resident = peak_memory(seen)
    assert resident is not None
    names = [column.header for column in resident.columns]
    assert resident.rows[0][names.index("loss")] is None
    assert resident.rows[0][names.index("backward")] is not None
    recorded = ev.MemoryTimeline(
        case=0, artifact="memory-0.json.gz", source="cpu tensors", steps=1, entries=2, peak_bytes=2,
        at_peak={}, before={}, largest=(),
        phases=tuple(
            ev.MemoryPhase(step=0, phase=each, peak_bytes=1, after_bytes=1)
            for each in ("forward", "loss")
        ),
    )  # fmt: skip
    assert [row[1] for row in memory_by_phase(seen.cases[0], recorded).rows] == ["forward"]
    table = step_log(seen)
    assert table is not None
    assert [row[2] for row in table.rows if row[0] == 1] == [
        "forward", "backward", "zero_grad", "total", "wall",
    ]  # fmt: skip
    assert "loss" in [row[2] for row in table.rows if row[0] == 2]


def test_tables_of_parts_are_of_the_models_that_have_parts() -> None:
    preset, own = case(mode="train"), case(model=NANO, mode="train")
    prediction = predict(preset)
    rows = [PredictedRow(each, prediction, None, None) for each in (own, preset)]
    assert part_tables(rows[:1]) == []
    for table in part_tables(rows):
        assert [row[0] for row in table.rows] == [preset.label]
        assert table.notes[-1].startswith("Own models are left out")
        assert all(table.notes)
    assert all("Own models" not in note for each in part_tables(rows[1:]) for note in each.notes)
