"""Checkpointed and accumulated steps: the same gradients, and memory as it is predicted."""

from __future__ import annotations

import msgspec
import pytest
import torch
from torch import Tensor

from llmprof.core.predict.allocator_replay import replay_allocator
from llmprof.core.predict.closed_form import predict, workspaces
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape
from llmprof.core.worker.allocation_recorders import TensorRecorder
from llmprof.core.worker.trace import trace
from llmprof.core.worker.trainer import Trainer

SHAPE = ModelShape(
    name="test", d_model=64, d_ff=160, num_layers=5, num_heads=4, kv_heads=2, vocab_size=300
)
CPU = torch.device("cpu")
TOLERANCE = 1e-5  # of the largest gradient of a tensor: sums in another order, fp32


def case_of(**fields: object) -> Case:
    base = {"model": msgspec.to_builtins(SHAPE), "context_length": 48, "batch_size": 4}
    return msgspec.convert({**base, **fields}, Case)


def loss_and_gradients(case: Case) -> tuple[float, dict[str, Tensor]]:
    trainer = Trainer(case, CPU)
    found: dict[str, Tensor] = {}

    def edge(index: int) -> None:
        if index == len(case.sequence) - 1:  # before zero_grad
            found.update(
                (name, p.grad.clone())
                for name, p in trainer.model.named_parameters()
                if p.grad is not None
            )

    loss = trainer.step(edge)
    assert loss is not None
    assert len(found) == SHAPE.parameter_tensors
    return loss.item(), found


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint": 1},
        {"checkpoint": 2},
        {"checkpoint": "all"},
        {"accumulate": 2},
        {"accumulate": 4},
        {"checkpoint": 2, "accumulate": 2, "attention": "sdpa"},
    ],
    ids=str,
)
def test_loss_and_gradients_are_those_of_the_plain_step(changes: dict[str, object]) -> None:
    plain_loss, plain = loss_and_gradients(case_of(mode="forward-backward"))
    loss, found = loss_and_gradients(case_of(mode="forward-backward", **changes))
    assert loss == pytest.approx(plain_loss, rel=TOLERANCE)
    for name, gradient in found.items():
        error = (gradient - plain[name]).abs().max() / plain[name].abs().max()
        assert float(error) <= TOLERANCE, name


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint": 1},
        {"checkpoint": 2, "precision": "bf16"},
        {"checkpoint": 2, "accumulate": 2, "attention": "sdpa"},
        {"checkpoint": "all", "precision": "bf16", "attention": "sdpa"},
        {"accumulate": 2, "precision": "bf16"},
        {"accumulate": 4, "mode": "forward"},
    ],
    ids=str,
)
def test_traced_and_closed_form_agree_in_every_phase(changes: dict[str, object]) -> None:
    shape = msgspec.structs.replace(SHAPE, num_layers=9)
    case = case_of(model=msgspec.to_builtins(shape), **changes)
    traced = trace(case)
    for phase in predict(case).phases:
        assert traced.phases[phase.phase] == pytest.approx(phase.peak, abs=16), phase


@pytest.mark.parametrize("checkpoint", [1, 2, "all"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_measured_peaks_are_those_of_the_closed_form(
    checkpoint: int | str, accumulate: int
) -> None:
    """Backward is left to the trace: softmax's holds one product less on the CPU than on a card."""
    case = case_of(checkpoint=checkpoint, accumulate=accumulate)
    trainer = Trainer(case, CPU)
    for _ in range(2):
        trainer.step(lambda index: None)
    recorder = TensorRecorder(trainer)
    held = [*trainer.model.parameters(), *trainer.model.buffers()]
    assert trainer.optimizer is not None
    for state in trainer.optimizer.state.values():
        held += [value for key, value in state.items() if key.startswith("exp_avg")]
    recorder.count(*held, *(tensor for _, tensor in trainer.task.tensors))
    base = recorder.level
    seen: dict[str, int] = {}
    level = base
    recording, _ = recorder.record(1)
    assert [mark.phase for mark in recording.marks] == list(case.sequence)
    for mark in recording.marks:
        within = [e for e in recording.entries if mark.start_us <= e.t_us <= mark.end_us]
        for entry in within:
            level += entry.size
            seen[mark.phase] = max(seen.get(mark.phase, 0), level)
    outside = sum(workspaces(case, (9, 0)))
    for phase in predict(case).phases:
        if phase.phase in ("forward", "loss", "optimizer"):
            assert seen[phase.phase] == pytest.approx(phase.peak - outside, rel=1e-4), phase


def test_a_checkpoint_lowers_what_waits_for_backward_and_the_optimum_has_neighbours() -> None:
    shape = msgspec.structs.replace(SHAPE, num_layers=16)
    peaks = {
        blocks: max(
            phase.peak
            for phase in predict(
                case_of(model=msgspec.to_builtins(shape), checkpoint=blocks)
            ).phases
            if phase.phase == "backward"
        )
        for blocks in (None, 1, 2, 4, 8, "all")
    }
    best = min(peaks, key=lambda blocks: peaks[blocks])
    assert best not in (None, "all")
    assert peaks[best] < peaks["all"] < peaks[None]


@pytest.mark.parametrize("changes", [{"checkpoint": 2}, {"accumulate": 2}], ids=str)
def test_the_replayed_allocator_agrees(changes: dict[str, object]) -> None:
    case = case_of(**changes)
    said = predict(case).allocated_low
    assert replay_allocator(case).allocated_bytes == pytest.approx(said, rel=1e-4)
