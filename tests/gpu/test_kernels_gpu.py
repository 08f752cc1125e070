"""The kernels probe on a real card."""

from __future__ import annotations

import gzip
import json
import resource
from pathlib import Path

import pytest

from llmprof.core.catalog.experiments import build_experiment
from llmprof.core.catalog.models import load_models, select_models
from llmprof.core.engine.client import Engine, Plan
from llmprof.core.kernels.attribution import attribute
from llmprof.core.kernels.columns import Kind
from llmprof.core.kernels.extract import extract
from llmprof.core.kernels.profile import kernel_table
from llmprof.core.kernels.step_windows import from_marks
from llmprof.core.kernels.tables import class_ids
from llmprof.core.kernels.timeline_strip import Strip
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run, RunStore
from tests.engine.runs import llmprof, newest

torch = pytest.importorskip("torch")
PRESETS = ("tiny", "small", "medium", "large", "xl", "2.7B", "10B")


def profile(folder: Path, seconds: float = 110, **overrides: object) -> Run:
    run = RunStore(folder).create("kernels")
    engine = Engine()
    experiment = build_experiment("kernels", overrides)
    engine.run(Plan(run_dir=str(run.path), experiment=experiment, lifeline=True))
    engine.wait(seconds)
    engine.dismiss()
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A full step of small, plain and profiled, with source lines and a trace."""
    folder = tmp_path_factory.mktemp("kernels")
    return profile(folder, models=["small"], modes=["train"], stacks=True, trace=True)


@pytest.fixture(scope="module")
def state(run: Run) -> CaseState:
    view = replay(run.journal)
    assert [case.status for case in view.cases] == ["ok", "ok"], view.cases
    return view.cases[1]


def test_everything_is_accounted_for(state: CaseState) -> None:
    assert state.kernels is not None
    coverage = state.kernels.coverage
    assert coverage.launches > 1_000
    assert coverage.launches_without_kernel == 0
    for share in (coverage.to_phase, coverage.to_op, coverage.backward_to_module):
        assert share is not None
        assert share >= 99


def test_steps_are_alike_and_kernels_as_many_as_launches(state: CaseState) -> None:
    assert state.kernels is not None
    for counts in state.kernels.launches:
        assert counts.steady
        assert counts.launches == counts.kernels
    kernels = sum(row.calls for row in state.kernels.rows if not row.name.startswith("Mem"))
    assert kernels == state.kernels.coverage.launches


def test_shares_make_up_the_whole(state: CaseState) -> None:
    assert state.kernels is not None
    assert state.timeline is not None
    step = state.timeline.parts[0]
    rows = sum(row.total_ms for row in state.kernels.rows)
    assert rows == pytest.approx(step.work_ms * state.kernels.steps)
    kinds = step.kernels_ms + step.memory_ops_ms + step.to_device_ms + step.to_host_ms
    assert kinds == pytest.approx(step.work_ms)
    assert 0 < step.gemm_ms < step.busy_ms < step.wall_ms
    assert step.waiting_ms <= step.idle_ms


def test_classes_are_the_sums_of_their_rows_and_gemms_those_of_gemm_ops(state: CaseState) -> None:
    table = state.kernels
    assert table is not None
    for share in table.classes:
        mine = [r for r in table.rows if (r.phase, r.group) == (share.phase, share.label)]
        assert sum(row.calls for row in mine) == share.calls
        assert sum(row.total_ms for row in mine) == pytest.approx(share.total_ms)
    gemms = {row.phase: row.calls for row in table.classes if row.label == "GEMM"}
    assert gemms == {count.phase: count.kernels for count in table.gemms if count.kernels}
    assert all(row.origin_share for row in table.rows if row.merged == 1)
    assert not [note for note in table.notes if "outlast" in note]


def test_phase_times_are_those_of_device_events(state: CaseState) -> None:
    assert state.timeline is not None
    for part in state.timeline.parts[1:4]:
        seen = state.measured.device_ms(part.phase)  # type: ignore[arg-type]
        assert part.wall_ms == pytest.approx(sum(seen) / len(seen), rel=0.1, abs=0.1)


def test_backward_kernels_have_the_line_of_their_forward(state: CaseState) -> None:
    assert state.kernels is not None
    softmax = [row for row in state.kernels.rows if "softmax_warp" in row.name]
    assert {row.phase for row in softmax} == {"forward", "backward"}
    for row in softmax:
        assert row.source is not None
        assert row.source.endswith(" in softmax")


def test_the_trace_holds_the_kernels_of_the_tables(run: Run, state: CaseState) -> None:
    table = state.kernels
    assert table is not None
    assert table.missing == ()
    assert table.trace is not None
    packed = (run.artifacts / table.trace).read_bytes()
    events = json.loads(gzip.decompress(packed))["traceEvents"]
    kernels = {event["name"] for event in events if event.get("cat") == "kernel"}
    wanted = {row.full_name for row in table.rows if not row.name.startswith("Mem")}
    assert len(wanted - kernels) <= 0.05 * len(wanted)  # some names are cut or cleaned here


def test_a_trace_that_does_not_fit_on_the_disk_is_all_that_is_lost(tmp_path: Path) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    options = ("--model-size=tiny", "--mode=train", "--chrome-trace", "--stacks")
    done = llmprof(tmp_path, "run", "kernels", *options, preexec=limited, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "case 2: no Chrome trace: File too large (EFBIG)" in done.stderr
    found = replay(newest(tmp_path).journal).cases[1].kernels
    assert found is not None
    assert found.trace is None
    assert any(row.source for row in found.rows)
    assert [path.suffix for path in newest(tmp_path).artifacts.iterdir()] == [".npz"]


def test_strip_has_launches_before_kernels(run: Run, state: CaseState) -> None:
    assert state.timeline is not None
    assert state.timeline.strip is not None
    strip = Strip.load(run.artifacts / state.timeline.strip.file)
    assert (strip.launch_start >= 0).all()
    assert (strip.launch_start <= strip.start).mean() > 0.999


@pytest.mark.filterwarnings("ignore:.*Profiler clears events")
def test_totals_agree_with_key_averages() -> None:
    from llmprof.core.worker.clock import phase_clock
    from llmprof.core.worker.kernel_ranges import PhaseMarks
    from llmprof.core.worker.trainer import Trainer

    case = Case(model=select_models(["tiny"])[0], probe="kernels", measure_steps=3)
    device = torch.device("cuda")
    trainer, clock = Trainer(case, device), phase_clock(device, case.phases)
    marks = PhaseMarks(clock, case.phases, nvtx=True)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    for steps in (1, 3):
        with torch.profiler.profile(activities=activities) as profiler:
            for _ in range(steps):
                marks.step.open()
                trainer.step(marks.edge)
                torch.cuda.synchronize()
                marks.step.close()
    columns = extract(profiler.profiler.kineto_results.events())
    found = attribute(columns, from_marks(columns, case.phases), "cuda")
    ours: dict[str, tuple[int, float]] = {}
    for row in kernel_table(found, class_ids(found), index=0, case=case).rows:
        calls, total = ours.get(row.full_name, (0, 0.0))
        ours[row.full_name] = (calls + row.calls, total + 1e3 * row.total_ms)
    theirs = {
        row.key: (row.count, row.self_device_time_total)
        for row in profiler.key_averages()
        if row.device_type.name == "CUDA" and not row.is_user_annotation
    }
    assert set(ours) == set(theirs)
    for name, (calls, total) in theirs.items():
        assert ours[name][0] == calls
        assert ours[name][1] == pytest.approx(total, rel=1e-3)
    assert int((found.kind == Kind.KERNEL).sum()) == len(found.launches)


@pytest.mark.timeout(330)
def test_gemm_ops_of_every_preset_that_fits(tmp_path: Path) -> None:
    names = [name for name in PRESETS if name in load_models()]
    run = profile(
        tmp_path,
        300,
        models=names,
        modes=["forward", "forward-backward"],
        variants=["profiled"],
        warmup_steps=[1],
        profile_steps=1,
    )
    seen = {"forward": 0, "backward": 0}
    for state in replay(run.journal).cases:
        if state.kernels is None:
            assert state.status == "oom", (state.case.label, state.failure)
            continue
        layers = state.case.reference.num_layers
        for count in state.kernels.gemms:
            wanted = {"forward": 9 * layers + 1, "backward": 18 * layers + 2}.get(count.phase, 0)
            assert count.ops == wanted, (state.case.label, count)
            seen[count.phase] = seen.get(count.phase, 0) + 1
        coverage = state.kernels.coverage.backward_to_module
        assert coverage is None or coverage >= 99
        print(state.case.label, [(c.phase, c.ops, c.kernels) for c in state.kernels.gemms])
    assert seen["forward"] >= 4
    assert seen["backward"] >= 3
