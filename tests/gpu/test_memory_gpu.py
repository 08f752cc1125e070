"""Prediction and recorded timelines on a card."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import torch

from llmprof.core import events as ev
from llmprof.core.figures.card_memory import memory_when_recorded
from llmprof.core.memory.kept_timeline import load
from llmprof.core.memory.timeline import base_of, build_timeline
from llmprof.core.predict.closed_form import predict
from llmprof.core.spec.axes import MODES
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape
from llmprof.core.store.journal import replay
from llmprof.core.worker import allocation_recorders, memory
from llmprof.core.worker.allocation_recorders import CudaRecorder, autocast_copies
from llmprof.core.worker.failed_step import FailingCudaRecorder, at_failure
from llmprof.core.worker.job import Job
from llmprof.core.worker.memory_edges import memory_step
from llmprof.core.worker.request import WorkerRequest
from llmprof.core.worker.trainer import Trainer
from tests.engine.runs import llmprof, newest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card"),
]
ROOT = Path(__file__).parents[2]
DEVICE = torch.device("cuda", 0)
SHAPE = ModelShape(
    name="test", d_model=512, d_ff=1344, num_layers=6, num_heads=8, kv_heads=4, vocab_size=5000
)


def _case(**fields: object) -> Case:
    return msgspec.convert({"model": msgspec.to_builtins(SHAPE), "probe": "memory", **fields}, Case)


def warmed(case: Case) -> Trainer:
    trainer = Trainer(case, DEVICE)
    for _ in range(2):
        trainer.step(lambda index: None)
    return trainer


class Caught(Job):
    """A job that keeps its events."""

    def __init__(self, case: Case, folder: Path) -> None:
        request = WorkerRequest(case=case, index=0, device="cuda:0", run_dir=str(folder))
        super().__init__(request, case, torch.device("cuda:0"), -1)
        self.events: list[ev.Event] = []

    def emit(self, *events: ev.Event) -> None:
        self.events.extend(events)


def recorded(case: Case, folder: Path) -> ev.MemoryTimeline:
    job = Caught(case, folder)
    memory.run(job)
    *_, found = [event for event in job.events if isinstance(event, ev.MemoryTimeline)]
    assert msgspec.json.decode(msgspec.json.encode(found), type=ev.MemoryTimeline) == found
    return found


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("attention", ["naive", "sdpa"])
def test_timeline_reaches_the_allocators_own_peak_to_the_byte(
    precision: str, attention: str, tmp_path: Path
) -> None:
    case = _case(precision=precision, attention=attention, context_length=256)
    found = recorded(case, tmp_path)
    assert not found.overflow
    assert found.peak_bytes == found.requested_peak_bytes
    assert sum(found.at_peak.values()) == found.peak_bytes
    assert found.before["parameters"] == 4 * SHAPE.parameters
    assert found.before["optimizer state"] == 8 * SHAPE.parameters
    assert found.artifact is not None
    points = load(tmp_path / "artifacts" / found.artifact)
    assert max(sum(level) for level in zip(*points.levels, strict=True)) == found.peak_bytes
    after = {p.phase: p.after_bytes for p in found.phases if p.step == 1}
    assert after["zero_grad"] <= sum(found.before.values()) + 1024
    gradients = after["backward"] - sum(found.before.values())
    assert abs(gradients - 4 * SHAPE.parameters) <= 1024


def test_categories_of_a_forward_backward_step(tmp_path: Path) -> None:
    case = _case(mode="forward-backward", precision="bf16", context_length=512)
    found = recorded(case, tmp_path)
    predicted = predict(case)
    for name in ("activations", "autocast copies", "parameters"):
        assert found.at_peak[name] == pytest.approx(predicted.breakdown[name], rel=0.02), name
    frames = [live.what for live in found.largest if live.category == "activations"]
    assert any(frame.startswith("model.py:") for frame in frames)
    assert any(live.category == "autocast copies" for live in found.largest)


def test_saved_bytes_are_the_activations_that_the_closed_form_counts(tmp_path: Path) -> None:
    case = _case(mode="forward-backward", context_length=256)
    found = recorded(case, tmp_path)
    saved = sum(each.bytes for each in found.saved)
    predicted = predict(case).breakdown["activations"]
    logits = 4 * case.tokens * SHAPE.vocab_size  # log-probabilities, which the loss saves
    tokens = 8 * case.tokens  # the embedding saves its indices
    assert saved - tokens + logits == pytest.approx(predicted, rel=0.01)


def test_copies_of_weights_are_told_where_a_checkpoint_runs_again(tmp_path: Path) -> None:
    case = _case(mode="forward-backward", precision="bf16", context_length=256, checkpoint="all")
    found = recorded(case, tmp_path)
    predicted = predict(case)
    for name in ("activations", "autocast copies"):
        assert found.at_peak[name] == pytest.approx(predicted.breakdown[name], rel=0.05), name


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_what_is_alive_as_the_allocator_refuses(precision: str) -> None:
    """In a process of its own: what other tests hold would count towards the limit."""
    code = f"from tests.gpu.test_memory_gpu import refused; refused({precision!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def refused(precision: str) -> None:
    case = _case(mode="train", precision=precision, context_length=1024, batch_size=8)
    _, total = torch.cuda.mem_get_info(DEVICE)
    limit = 3 * predict(case).requested_bytes // 4
    torch.cuda.set_per_process_memory_fraction(limit / total, DEVICE)
    copies = autocast_copies(Trainer(case, DEVICE), DEVICE, may_fail=True)
    gc.collect()
    torch.cuda.empty_cache()
    failed = FailingCudaRecorder(Trainer(case, DEVICE), DEVICE).record_failure(3, copies)
    assert failed is not None
    found = at_failure(0, failed, "cuda allocator")
    print(found.live, limit, found.bytes_asked)
    assert found.live["parameters"] == 4 * SHAPE.parameters
    assert found.bytes_asked
    assert limit / 2 < sum(found.live.values()) <= limit
    assert ("autocast copies" in found.live) == (precision == "bf16")
    assert any(each.what.startswith("model.py:") for each in found.largest)


def test_a_snapshot_that_cannot_be_written_is_all_that_is_lost(tmp_path: Path) -> None:
    (tmp_path / "artifacts" / "snapshot-0.pickle").mkdir(parents=True)  # in the way
    found = recorded(_case(trace=True), tmp_path)
    assert found.snapshot is None
    assert len(found.missing) == 1
    assert found.missing[0].startswith("no snapshot: ")
    assert found.peak_bytes == found.requested_peak_bytes
    assert found.artifact is not None
    assert (tmp_path / "artifacts" / found.artifact).exists()


def test_snapshot_is_written_on_demand(tmp_path: Path) -> None:
    found = recorded(_case(trace=True), tmp_path)
    assert found.snapshot is not None
    snapshot = pickle.loads((tmp_path / "artifacts" / found.snapshot).read_bytes())
    assert snapshot["segments"]
    actions = [entry["action"] for entry in snapshot["device_traces"][0]]
    assert actions.count("alloc") + actions.count("free_completed") == found.entries
    named = {each["name"] for each in snapshot["external_annotations"]}
    assert {"phase 0 forward", "phase 1 optimizer"} <= named
    assert recorded(_case(), tmp_path).snapshot is None


@pytest.mark.parametrize(("precision", "mode"), [("fp32", "train"), ("bf16", "forward")])
def test_categories_sum_to_the_level_at_every_point(precision: str, mode: str) -> None:
    trainer = warmed(_case(precision=precision, mode=mode))
    held = list(memory.named_tensors(trainer))
    recorder = CudaRecorder(trainer, DEVICE)
    trace, known = recorder.record(2)
    assert not trace.overflow
    made = build_timeline(trace, base_of(held, recorder.base), held, known)
    level = recorder.base
    for entry, by_category in zip(trace.entries, made.levels(), strict=True):
        level += entry.size
        assert sum(by_category) == level
        assert min(by_category) >= 0
    assert made.peak == recorder.requested_peak
    stacks = [trace.stacks[block.stack] for block in made.blocks if block.phase == "forward"]
    assert len(stacks) > 20
    assert all(any("trainer.py" in frame for frame in stack) for stack in stacks)


def test_a_full_ring_is_detected_and_the_levels_after_it_are_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(allocation_recorders, "MAX_ENTRIES", 300)
    trainer = warmed(_case())
    recorder = CudaRecorder(trainer, DEVICE)
    trace, known = recorder.record(2)
    now = torch.cuda.memory_stats(DEVICE)["requested_bytes.all.current"]
    assert trace.overflow
    assert len(trace.entries) <= 300
    held = list(memory.named_tensors(trainer))
    made = build_timeline(trace, base_of(held, recorder.base), held, known)
    assert sum(made.levels()[-1]) == now
    assert min(min(level) for level in made.levels()) >= 0
    assert made.peak <= recorder.requested_peak
    assert trace.marks[-1].phase == "zero_grad"


@pytest.mark.parametrize("mode", MODES)
def test_closed_form_meets_the_card(mode: str) -> None:
    case = _case(mode=mode, precision="bf16", attention="sdpa", context_length=200)
    gc.collect()  # a model of the test before may still hold its bytes
    torch.cuda.empty_cache()
    torch._C._cuda_clearCublasWorkspaces()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    job = Caught(case, Path())
    trainer = warmed(case)
    edges = memory_step(job, trainer).edges
    peak = max(edge.requested_peak_bytes or 0 for edge in edges) - before
    assert abs(peak / predict(case).requested_bytes - 1) < 0.002


def test_a_run_reconciles_the_card_and_measures_the_context(tmp_path: Path) -> None:
    shape = ["--model-size=tiny", "--num-layers=2", "--vocab-size=1000"]
    how = ["--mode=train", "--precision=fp32", "--context-length=128", "--device=cuda:0"]
    done = llmprof(tmp_path, "run", "memory", *shape, *how, "--snapshot", timeout=300)
    assert done.returncode == 0, done.stderr
    run = newest(tmp_path)
    view = replay(run.journal)
    (state,) = view.cases
    found, environment = state.memory_timeline, view.environment
    assert found is not None
    assert environment is not None
    assert environment.context_bytes is not None
    assert 100 << 20 <= environment.context_bytes <= 2 << 30
    assert found.snapshot is not None
    assert (run.artifacts / found.snapshot).stat().st_size > 0
    assert f"artifacts/{found.snapshot}" in done.stdout
    parts = memory_when_recorded(found)
    assert parts is not None
    assert parts.context is not None, parts.reason
    total = parts.context + parts.allocated + parts.cached + (parts.others or 0) + parts.rest
    assert total == parts.used
    # Kernels and library handles come on top of what the context took when it was made.
    assert environment.context_bytes - (32 << 20) <= parts.context <= 3 << 30
    assert parts.rest >= 0


def test_context_is_measured_in_a_process_that_had_none(tmp_path: Path) -> None:
    code = (
        "import torch; from llmprof.core.worker import card, environment as e;"
        "d = torch.device('cuda', 0); print(card.measure_context(d, lambda: e.create_context(d)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 100 << 20 <= int(done.stdout) <= 2 << 30
