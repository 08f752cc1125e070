"""Prediction and recorded timelines on a card."""

from __future__ import annotations

import pickle
from pathlib import Path

import msgspec
import pytest
import torch

from llmprof.core import events as ev
from llmprof.core.engine.request import Request
from llmprof.core.memory.points import load
from llmprof.core.memory.reconcile import reconcile
from llmprof.core.predict.memory import predict
from llmprof.core.spec import MODES, Case, ModelShape
from llmprof.core.worker import memory
from llmprof.core.worker.job import Job
from llmprof.core.worker.memory_edges import memory_step
from llmprof.core.worker.trainer import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card"),
]
SHAPE = ModelShape(
    name="test", d_model=512, d_ff=1344, num_layers=6, num_heads=8, kv_heads=4, vocab_size=5000
)


class Caught(Job):
    """A job that keeps its events."""

    def __init__(self, case: Case, folder: Path) -> None:
        request = Request(case=case, index=0, device="cuda:0", run_dir=str(folder))
        super().__init__(request, case, torch.device("cuda:0"), -1)
        self.events: list[ev.Event] = []

    def emit(self, *events: ev.Event) -> None:
        self.events.extend(events)


def recorded(case: Case, folder: Path) -> ev.MemoryTimeline:
    job = Caught(case, folder)
    memory.run(job)
    (found,) = [event for event in job.events if isinstance(event, ev.MemoryTimeline)]
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


def test_snapshot_is_written_on_demand(tmp_path: Path) -> None:
    found = recorded(_case(trace=True), tmp_path)
    assert found.snapshot is not None
    snapshot = pickle.loads((tmp_path / "artifacts" / found.snapshot).read_bytes())
    assert snapshot["device_traces"][0]
    assert snapshot["segments"]


@pytest.mark.parametrize("mode", MODES)
def test_closed_form_meets_the_card(mode: str) -> None:
    case = _case(mode=mode, precision="bf16", attention="sdpa", context_length=200)
    torch.cuda.empty_cache()
    torch._C._cuda_clearCublasWorkspaces()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    job = Caught(case, Path())
    trainer = Trainer(case, job.device)
    for _ in range(2):
        trainer.step(lambda index: None)
    edges = memory_step(job, trainer).edges
    peak = max(edge.requested_peak_bytes or 0 for edge in edges) - before
    assert abs(peak / predict(case).requested_bytes - 1) < 0.002


def _case(**fields: object) -> Case:
    return msgspec.convert({"model": msgspec.to_builtins(SHAPE), "probe": "memory", **fields}, Case)


def test_parts_of_the_card_sum_to_what_the_driver_says(tmp_path: Path) -> None:
    found = recorded(_case(context_length=256), tmp_path)
    parts = reconcile(found)
    assert parts is not None
    if not parts.complete:
        assert parts.reason
        pytest.skip(parts.reason)
    assert parts.context is not None
    assert parts.others is not None
    assert parts.rest is not None
    total = parts.context + parts.allocated + parts.cached + parts.others + parts.rest
    assert total == parts.used
    assert 100 << 20 <= parts.context <= 2 << 30
