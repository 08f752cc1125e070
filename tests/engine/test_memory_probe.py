"""The memory probe on the CPU: a recorded step, its categories, saved bytes; traced prediction."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import torch
from torch import Tensor

from llmprof.core import events as ev
from llmprof.core.memory.kept_timeline import load
from llmprof.core.memory.timeline import starred
from llmprof.core.predict.byte_levels import CATEGORIES
from llmprof.core.predict.closed_form import predict, workspaces
from llmprof.core.predict.single_tensors import single_tensors
from llmprof.core.predict.traced import trace_cases
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape
from llmprof.core.worker import memory
from llmprof.core.worker.job import Job
from llmprof.core.worker.request import WorkerRequest
from llmprof.core.worker.saved_bytes import saved_bytes
from llmprof.core.worker.trace import trace
from llmprof.core.worker.trainer import Trainer, autocast
from tests.engine.runs import llmprof

SHAPE = ModelShape(
    name="test", d_model=64, d_ff=160, num_layers=3, num_heads=4, kv_heads=2, vocab_size=300
)


class Caught(Job):
    """A job that keeps its events."""

    def __init__(self, case: Case, folder: Path) -> None:
        request = WorkerRequest(case=case, index=0, device="cpu", run_dir=str(folder))
        super().__init__(request, case, torch.device("cpu"), -1)
        self.events: list[ev.Event] = []

    def emit(self, *events: ev.Event) -> None:
        self.events.extend(events)


def case_of(**fields: object) -> Case:
    base = {"model": msgspec.to_builtins(SHAPE), "context_length": 48, "batch_size": 2}
    return msgspec.convert({**base, **fields}, Case)


def recorded(case: Case, folder: Path) -> ev.MemoryTimeline:
    job = Caught(case, folder)
    memory.run(job)
    (found,) = [event for event in job.events if isinstance(event, ev.MemoryTimeline)]
    assert ev.decode(ev.encode(found)) == found
    return found


def test_recorded_training_steps_are_those_of_the_closed_form(tmp_path: Path) -> None:
    case = case_of(mode="train", attention="naive")
    found = recorded(case, tmp_path)
    assert found.before["parameters"] == 4 * SHAPE.parameters
    assert found.before["optimizer state"] - 8 * SHAPE.parameters <= 4 * SHAPE.parameter_tensors
    base = sum(found.before.values())
    peaks = {p.phase: p.peak_bytes - base for p in found.phases if p.step == 1}
    prediction = predict(case)
    outside = sum(workspaces(case, (9, 0))) + 12 * SHAPE.parameters + case.tokens * 16
    said = {p.phase: p.peak - outside for p in prediction.phases}
    tables = 48 * 16 * 4 + 48 * 48  # RoPE's tables and the mask
    for phase in ("forward", "loss", "optimizer"):
        assert peaks[phase] == pytest.approx(said[phase] - tables, abs=256), phase
    assert found.artifact is not None
    points = load(tmp_path / "artifacts" / found.artifact)
    assert max(sum(level) for level in zip(*points.levels, strict=True)) == found.peak_bytes
    after = {p.phase: p.after_bytes for p in found.phases if p.step == 1}
    assert abs(after["backward"] - base - 4 * SHAPE.parameters) <= 64
    assert abs(after["zero_grad"] - base) <= 64


@pytest.mark.parametrize("optimizer", ["foreach", "loop"])
def test_without_warm_up_the_optimizers_state_is_born_in_the_recording(
    optimizer: str, tmp_path: Path
) -> None:
    cold = recorded(case_of(mode="train", warmup_steps=0, optimizer=optimizer), tmp_path / "cold")
    warm = recorded(case_of(mode="train", warmup_steps=2, optimizer=optimizer), tmp_path / "warm")
    state = warm.before["optimizer state"]
    assert state >= 8 * SHAPE.parameters
    assert "optimizer state" not in cold.before
    assert cold.after["optimizer state"] == state
    assert abs(sum(cold.after.values()) - sum(warm.before.values())) <= 64  # the new baseline
    after = {(p.step, p.phase): p.after_bytes for p in cold.phases}
    born = after[0, "optimizer"] - after[0, "backward"]
    assert abs(born - state) <= 64
    assert abs(after[1, "optimizer"] - after[1, "backward"]) <= 64  # only once
    assert cold.artifact is not None
    points = load(tmp_path / "cold" / "artifacts" / cold.artifact)
    level = points.levels[CATEGORIES.index("optimizer state")]
    assert (level[0], level[-1]) == (0, state)


def test_autocast_copies_and_activations_have_their_categories(tmp_path: Path) -> None:
    case = case_of(mode="forward-grad", precision="bf16")
    found = recorded(case, tmp_path)
    d, kv = SHAPE.d_model, SHAPE.kv_dim
    block = 2 * d * d + 2 * d * kv + 3 * d * SHAPE.d_ff
    copied = 2 * (3 * block + d * SHAPE.vocab_size)
    assert found.at_peak["autocast copies"] == copied
    assert found.at_peak["activations"] > copied
    lines = {live.what for live in found.largest if live.category == "activations"}
    assert any(line.startswith("model.py:") for line in lines)
    stacks = [live.stack for live in found.largest if live.what.startswith("model.py:")]
    for stack in stacks:
        assert "recorders.py" not in stack[0]
        assert any("trainer.py" in frame for frame in stack)  # down to the step itself


def test_saved_bytes_of_a_block_are_autograds_saved_tensors(tmp_path: Path) -> None:
    trainer = Trainer(case_of(mode="forward-grad"), torch.device("cpu"))
    found = saved_bytes(trainer.model, lambda: trainer.forward(trainer.task.batch))
    own = {t.untyped_storage()._cdata for t in trainer.model.parameters()}
    own |= {t.untyped_storage()._cdata for t in trainer.model.buffers()}
    storages = {
        storage._cdata: storage.nbytes()
        for tensor in _saved_by(trainer.forward(trainer.task.batch))
        if tensor.dim()  # the divisor of the scores is a number, not memory of the step
        and (storage := tensor.untyped_storage())._cdata not in own
    }
    assert sum(each.bytes for each in found) == sum(storages.values())
    blocks = {each.module: each for each in found}
    tokens = trainer.case.tokens
    assert blocks["blocks.*.ffn.down"].bytes == 3 * 4 * tokens * SHAPE.d_ff
    assert blocks["blocks.*.ffn.down"].modules == 3
    assert starred("blocks.0.ffn") == "blocks.*.ffn"


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("length", [16, 40, 48])  # 4 heads × 16 is d_model, × 40 is d_ff
def test_what_a_block_is_said_to_save_is_what_torch_saves(precision: str, length: int) -> None:
    case = case_of(mode="forward-grad", precision=precision, context_length=length)
    trainer = Trainer(case, torch.device("cpu"))

    def forward() -> Tensor:
        with autocast(case.precision, trainer.device):
            logits: Tensor = trainer.forward(trainer.task.batch)
        return logits

    found = saved_bytes(trainer.model, forward)
    blocks = sum(each.bytes for each in found if each.module.startswith(("blocks.*", "rope")))
    matrices = [
        weight.numel()
        for name, weight in trainer.model.named_parameters()
        if name.startswith("blocks.") and weight.dim() == 2
    ]
    said = {each.name: each.size for each in single_tensors(case)}
    if precision == "bf16":  # a CPU's autocast leaves softmax in bf16, a card's widens it
        blocks += 3 * said["softmax of the scores"] - 2 * sum(matrices)
    assert blocks == 3 * said["saved for backward by one block"]


def _saved_by(out: Tensor) -> list[Tensor]:
    """Every tensor that the nodes behind `out` have saved, read from the nodes themselves."""
    found, todo, seen = [], [out.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        for name in dir(node):
            if name.startswith("_saved_"):
                value = getattr(node, name)
                found += [
                    v
                    for v in (value if isinstance(value, tuple) else (value,))
                    if isinstance(v, Tensor)
                ]
        todo += [parent for parent, _ in node.next_functions]
    return found


@pytest.mark.parametrize("attention", ["naive", "sdpa"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_traced_and_closed_form_agree(attention: str, precision: str) -> None:
    shape = msgspec.structs.replace(SHAPE, num_layers=9)
    for mode in ("forward", "train"):
        case = case_of(
            model=msgspec.to_builtins(shape), mode=mode, precision=precision, attention=attention
        )
        traced = trace(case)
        for phase in predict(case).phases:
            assert traced.phases[phase.phase] == pytest.approx(phase.peak, abs=16), phase


@pytest.mark.parametrize("kind", ["loop", "fused"])
def test_traced_optimizers(kind: str) -> None:
    case = case_of(mode="train", optimizer=kind, batch_size=1)
    assert trace(case).requested_bytes == pytest.approx(predict(case).requested_bytes, abs=16)


def test_tracing_runs_in_a_process_of_its_own() -> None:
    case = case_of(mode="forward-backward")
    (answer,) = trace_cases([case]).values()
    assert answer.error is None
    assert answer.requested_bytes == pytest.approx(predict(case).requested_bytes, abs=16)


def test_a_run_exports_its_tables_and_pictures_and_so_does_a_packed_one(tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    options = ["--smoke", "--device=cpu", "--mode=train", "--precision=bf16"]
    done = llmprof(tmp_path / "home", "run", "memory", *options, "--export", str(report))
    assert done.returncode == 0, done.stderr
    text = report.read_text()
    for title in (
        "Peak memory by context length",
        "Requested memory by phase",
        "Largest allocations",
        "Single tensors",
    ):
        assert title in text
    assert "(report-memory-1.svg)" in text
    assert (tmp_path / "report-memory-1.svg").read_text().startswith("<svg")
    packed = tmp_path / "run.llmprof"
    assert llmprof(tmp_path / "home", "pack", "-o", str(packed)).returncode == 0
    again = tmp_path / "again.md"
    shown = llmprof(tmp_path / "elsewhere", "show", str(packed), "--export", str(again))
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "again-memory-1.svg").exists()
