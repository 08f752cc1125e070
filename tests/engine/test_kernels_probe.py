"""The kernels probe for real, on CPU ops."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmprof.core import events as ev
from llmprof.core.catalog.experiments import build_experiment
from llmprof.core.engine.client import Engine, Plan
from llmprof.core.events.kernel_rows import UNATTRIBUTED
from llmprof.core.kernels.timeline_strip import Strip
from llmprof.core.report.attention_lens import lens_tables
from llmprof.core.report.kernel_timeline import timeline_table
from llmprof.core.report.kernels import kernel_tables
from llmprof.core.report.overhead import overhead_table
from llmprof.core.spec.case import PHASES
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run, RunStore
from llmprof.core.worker.request import WorkerRequest
from tests.builders.kernel_events import Made
from tests.engine.runs import MINI

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The kernels experiment at its smoke sizes: a training step, plain and profiled."""
    made = RunStore(tmp_path_factory.mktemp("kernels")).create("kernels")
    overrides = {"device": "cpu", "modes": ["train"], "stacks": True, "trace": True}
    experiment = build_experiment("kernels", overrides, smoke=True)
    engine = Engine()
    engine.run(Plan(run_dir=str(made.path), experiment=experiment, lifeline=True))
    engine.wait(110)
    engine.dismiss()
    return made


@pytest.fixture(scope="module")
def view(run: Run) -> RunView:
    return replay(run.journal)


@pytest.fixture(scope="module")
def state(view: RunView) -> CaseState:
    """The profiled case."""
    assert [case.status for case in view.cases] == ["ok", "ok"], view.log
    return view.cases[1]


def test_a_case_is_timed_and_profiled_in_processes_of_their_own(view: RunView, run: Run) -> None:
    assert [case.case.probe for case in view.cases] == ["timing", "kernels"]
    assert [case.kernels is not None for case in view.cases] == [False, True]
    events = [ev.decode(line) for line in run.journal.read_bytes().splitlines()]
    pids = [event.pid for event in events if isinstance(event, ev.CaseStarted)]
    assert len(set(pids)) == 2


def test_gemm_ops_are_counted_exactly(state: CaseState) -> None:
    assert state.kernels is not None
    counts = {count.phase: count.ops / count.steps for count in state.kernels.gemms}
    assert counts["forward"] == 9 * 2 + 1
    assert counts["backward"] == 18 * 2 + 2
    assert counts["optimizer"] == counts["loss"] == 0
    assert all(count.as_expected for count in state.kernels.gemms)


def test_classes_of_ops_are_the_sums_of_their_rows_and_only_leaves_are_gemms(
    state: CaseState,
) -> None:
    table = state.kernels
    assert table is not None
    for share in table.classes:
        mine = [r for r in table.rows if (r.phase, r.group) == (share.phase, share.label)]
        assert sum(row.calls for row in mine) == share.calls
        assert sum(row.total_ms for row in mine) == pytest.approx(share.total_ms)
    gemms = {row.phase: row.calls for row in table.classes if row.label == "GEMM"}
    assert gemms == {"forward": 2 * (9 * 2 + 1), "backward": 2 * (18 * 2 + 2)}
    assert {row.name for row in table.rows if row.group == "GEMM"} == {"aten::mm", "aten::bmm"}


def test_torchs_own_annotations_are_no_ops(state: CaseState, run: Run) -> None:
    assert state.kernels is not None
    assert state.kernels.trace is not None
    trace = gzip.decompress((run.artifacts / state.kernels.trace).read_bytes()).decode()
    assert "Optimizer.step#AdamW.step" in trace  # torch made one
    labels = {row.name for row in state.kernels.rows} | {row.label for row in state.kernels.ops}
    assert not [label for label in labels if "#" in label]
    assert any(label.startswith("aten::_foreach") for label in labels)


def test_real_ranges_nest(state: CaseState) -> None:
    assert state.kernels is not None
    assert not [note for note in state.kernels.notes if "outlast" in note]


def test_ops_by_self_time_are_labelled_and_add_up(state: CaseState) -> None:
    table, facts = state.kernels, state.timeline
    assert table is not None
    assert facts is not None
    assert table.source == facts.source == "cpu"
    assert (table.steps, table.launches, facts.verdict) == (2, (), "n/a")
    total = sum(row.total_ms for row in table.rows)
    for shares in (table.classes, table.ops, table.modules):
        assert sum(row.total_ms for row in shares) == pytest.approx(total)
    step = facts.parts[0]
    assert step.work_ms * 2 == pytest.approx(total)
    assert step.work_ms <= step.wall_ms
    assert not [row for row in table.rows if row.name.startswith("llmprof")]


def test_backward_is_tied_to_modules(state: CaseState) -> None:
    assert state.kernels is not None
    coverage = state.kernels.coverage
    assert coverage.to_phase == coverage.to_op == 100.0
    assert coverage.backward_to_module is not None
    assert 0.0 < coverage.backward_to_module <= 100.0
    # Counted, not timed: an op that the machine interrupts takes any share of the time.
    calls = {row.label: row.calls for row in state.kernels.modules if row.phase == "backward"}
    assert {"blocks.*.attention.q_proj", "blocks.*.ffn.down", "head", "(loss)"} <= calls.keys()
    loose = sum(calls.get(label, 0) for label in ("(backward)", "(forward)", UNATTRIBUTED))
    assert loose < 0.01 * sum(calls.values())


def test_every_stage_of_attention_is_seen(state: CaseState) -> None:
    assert state.lens is not None
    stages = ["QKᵀ", "scale + mask", "softmax", "AV"]
    assert [row.stage for row in state.lens.rows] == stages * 2
    assert all(row.device_us > 0 for row in state.lens.rows)


def test_source_lines_are_those_of_the_model(state: CaseState) -> None:
    assert state.kernels is not None
    lines = {(row.phase, row.name): row.source for row in state.kernels.rows}
    source = lines["forward", "aten::_softmax"]
    assert source is not None
    path, function = source.split(" in ")
    assert function == "softmax"
    name, number = path.split(":")
    assert name == "worker/model.py"
    model = Path(__file__).parents[2] / "core" / name
    assert "torch.softmax" in model.read_text().splitlines()[int(number) - 1]
    assert lines["backward", "aten::_softmax_backward_data"] in (
        source,
        lines["loss", "aten::_log_softmax"],
    )


def test_artifacts_are_what_the_journal_says(run: Run, state: CaseState) -> None:
    assert state.timeline is not None
    assert state.timeline.strip is not None
    strip = Strip.load(run.artifacts / state.timeline.strip.file)
    assert len(strip) == state.timeline.strip.activities > 100
    assert state.kernels is not None
    assert state.kernels.trace is not None
    trace = json.loads(gzip.decompress((run.artifacts / state.kernels.trace).read_bytes()))
    assert {"aten::mm", "llmprof step"} <= {event.get("name") for event in trace["traceEvents"]}


def test_tables_say_that_there_was_no_card(view: RunView) -> None:
    tops = [table for table in kernel_tables(view) if table.title.startswith("Top CPU ops")]
    assert len(tops) >= 4
    assert all("No card" in table.notes[0] for table in tops)
    assert all("one profiled step" in table.title for table in tops)
    headings = {column.heading for table in tops for column in table.columns}
    assert not [heading for heading in headings if "GPU" in heading]
    sourced = [table for table in tops if "Source" in {each.header for each in table.columns}]
    assert sourced
    assert all(any("session of their own" in n for n in table.notes) for table in sourced)
    timeline, overhead = timeline_table(view), overhead_table(view)
    assert timeline is not None
    assert any("no card" in note for note in timeline.notes)
    plain = view.cases[0].wall
    assert plain is not None
    at = [column.header for column in timeline.columns].index("Plain wall")
    assert timeline.rows[0][at] == plain.mean
    assert overhead is not None
    phases = [str(row[1]) for row in overhead.rows]
    plain_ms = {phase: each.mean for phase, each in view.cases[0].summaries.items()}
    longest = max(plain_ms, key=plain_ms.__getitem__)  # short ones are left out
    assert {longest, "wall"} <= set(phases) <= {*PHASES, "wall"}
    assert phases[-1] == "wall"
    (lens,) = lens_tables(view)
    stages = [str(row[1]) for row in lens.rows]
    layers = view.cases[1].case.reference.num_layers
    assert stages.count("total") == stages.count(f"mean of {layers} layers") == 2


# In this process, with a profiler that does not work.


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Any]:
    from llmprof.core.worker.job import Job

    (tmp_path / "artifacts").mkdir()
    with (tmp_path / "events").open("w+b") as file:
        request = WorkerRequest(case=MINI, index=0, device="cpu", run_dir=str(tmp_path))
        yield Job(request, MINI, torch.device("cpu"), file.fileno())


def sent(job: Any, kind: type[ev.Event]) -> list[ev.Event]:
    lines = (Path(job.request.run_dir) / "events").read_bytes().splitlines()
    return [event for event in map(ev.decode, lines) if isinstance(event, kind)]


def test_a_profiler_that_cannot_start_is_one_line(
    job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llmprof.core.worker import failures, kernels

    def refuse(**options: object) -> None:
        raise RuntimeError("CUPTI is taken\nby another")

    monkeypatch.setattr(kernels, "profile", refuse)
    with pytest.raises(failures.Unsupported) as caught:
        kernels.run(job)
    failure = failures.describe_failure(caught.value, job.phase)
    assert (failure.kind, failure.phase) == ("unsupported", "profiler")
    assert failure.message == "the profiler cannot start: CUPTI is taken by another"
    assert failure.instead is not None
    assert "timing" in failure.instead
    assert sent(job, ev.StepDone)  # the warm-up was journalled before


def test_a_card_that_shows_no_kernels_is_never_an_empty_table(job: Any) -> None:
    from llmprof.core.worker import failures, kernels
    from llmprof.core.worker.clock import phase_clock
    from llmprof.core.worker.trainer import Trainer

    trainer = Trainer(job.case, job.device)
    session = kernels.Profiler(job, trainer, phase_clock(job.device, job.case.phases)).record(1)
    assert kernels.read_activities(session, job.case, "cpu").windows.steps == 1
    with pytest.raises(failures.Unsupported, match="recorded nothing from the card"):
        kernels.read_activities(session, job.case, "cuda")


def test_phases_that_do_not_nest_are_one_line(job: Any) -> None:
    from llmprof.core.worker import failures, kernels

    made = Made()
    phases = job.case.phases
    made.step(0, [10, 500, 400, 700, 800], 1_000, phases)  # the loss ends before it began
    session = kernels.ProfilerSession(made.columns(), [None], [None])  # type: ignore[list-item]
    with pytest.raises(failures.Unsupported) as caught:
        kernels.read_activities(session, job.case, "cpu")
    failure = failures.describe_failure(caught.value, "tables")
    assert failure.message == (
        "the profile cannot be read: loss of profiled step 1 is not inside it and in order"
    )


def test_ranges_that_do_not_nest_are_noted(job: Any) -> None:
    import msgspec

    from llmprof.core.worker import kernels

    made = Made()
    made.step(0, [10, 900], 1_000, ("forward",))
    made.op("llmprof module a", 20, 100)
    made.op("llmprof module b", 80, 100)
    (note,) = kernels._notes(job, made.activities(("forward",), "cpu"))
    assert note.startswith("Ranges or ops that outlast what they began in: 1; what ran in them")
    job.case = msgspec.structs.replace(job.case, nvtx=True)
    assert kernels._notes(job, made.activities(("forward",), "cpu"))[1].startswith("--nvtx: no")


def test_grouped_and_fused_attention_have_a_lens(job: Any) -> None:
    import msgspec

    from llmprof.core.worker import kernels

    job.case = msgspec.structs.replace(job.case, attention="sdpa")
    kernels.run(job)
    (lens,) = sent(job, ev.AttentionLens)
    assert isinstance(lens, ev.AttentionLens)
    assert [(row.direction, row.stage) for row in lens.rows] == [
        ("forward", "fused attention"),
        ("backward", "fused attention"),
    ]
    (table,) = sent(job, ev.KernelTable)
    assert isinstance(table, ev.KernelTable)
    assert all(count.expected_per_step is None for count in table.gemms)
    for count in table.gemms:
        if count.phase == "forward":
            assert count.ops >= (7 * 2 + 1) * count.steps
