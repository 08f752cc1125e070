"""Checkpoints and micro-batches on a card: predicted peaks, the best block, gradients, time."""

from __future__ import annotations

import gc
from functools import cache

import msgspec
import pytest
import torch

from llmprof.core.catalog.models import load_models
from llmprof.core.predict.checkpoints import best_blocks
from llmprof.core.predict.closed_form import predict
from llmprof.core.spec.case import Case
from llmprof.core.worker.trainer import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card"),
]
DEVICE = torch.device("cuda", 0)
WORST = 1e-4  # 0.01 %
BLOCKS = (None, 1, 2, 3, 4, 6, 9, 12, 18, "all")  # of large's 36
ROOM = 60 << 30  # of a card, below which large at context 1,024 without checkpoints is left out


def capability() -> tuple[int, int]:
    return torch.cuda.get_device_capability(DEVICE)


@cache
def measured(case: Case) -> dict[str, int]:
    """Requested bytes at the peak of each phase of a step after two of warm-up."""
    gc.collect()
    torch.cuda.empty_cache()
    torch._C._cuda_clearCublasWorkspaces()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    trainer = Trainer(case, DEVICE)
    for _ in range(2):
        trainer.step(lambda index: None)
    peaks: dict[str, int] = {}

    def edge(index: int) -> None:
        peak = torch.cuda.memory_stats()["requested_bytes.all.peak"] - before
        if index:
            phase = case.sequence[index - 1]
            peaks[phase] = max(peaks.get(phase, 0), peak)
        torch.cuda.reset_peak_memory_stats()

    trainer.step(edge)
    return peaks


def large(context_length: int, **fields: object) -> Case:
    base = {"model": msgspec.to_builtins(load_models()["large"]), "context_length": context_length}
    return msgspec.convert({**base, **fields}, Case)


def room_for(case: Case) -> None:
    free, _ = torch.cuda.mem_get_info(DEVICE)
    if predict(case, capability()).allocated_high * 1.1 > free:
        pytest.skip("the card is too small for this case")


@pytest.mark.parametrize("context_length", [512, 1024])
@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_peaks_of_every_phase_are_predicted(context_length: int, blocks: object) -> None:
    case = large(context_length, checkpoint=blocks)
    room_for(case)
    peaks = measured(case)
    for phase in predict(case, capability()).phases:
        assert peaks[phase.phase] == pytest.approx(phase.peak, rel=WORST), phase


@pytest.mark.parametrize("context_length", [512, 1024])
@pytest.mark.parametrize("of_step", [False, True])
def test_the_block_that_is_predicted_best_is_measured_best(
    context_length: int, of_step: bool
) -> None:
    room_for(large(context_length))
    peaks = {
        blocks: measured(large(context_length, checkpoint=blocks))
        for blocks in BLOCKS
        if blocks != "all"
    }
    sizes = {b: max(p.values()) if of_step else p["backward"] for b, p in peaks.items()}
    lowest = min(sizes.values())
    best = {blocks for blocks, size in sizes.items() if size <= lowest * (1 + WORST)}
    said = best_blocks(large(context_length), capability(), of_step=of_step)
    assert {each.blocks for each in said} & set(sizes) == best


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint": 2, "precision": "bf16"},
        {"checkpoint": 1, "attention": "sdpa"},
        {"checkpoint": 4, "attention": "sdpa", "precision": "bf16", "optimizer": "fused"},
        {"accumulate": 2},
        {"accumulate": 4, "precision": "bf16", "attention": "sdpa"},
        {"accumulate": 2, "checkpoint": 2, "precision": "bf16"},
    ],
    ids=str,
)
def test_other_switches_beside_them_are_predicted(changes: dict[str, object]) -> None:
    case = msgspec.convert(
        {"model": msgspec.to_builtins(load_models()["medium"]), "context_length": 512, **changes},
        Case,
    )
    peaks = measured(case)
    for phase in predict(case, capability()).phases:
        assert peaks[phase.phase] == pytest.approx(phase.peak, rel=1e-3), phase
    top = predict(case, capability()).requested_bytes
    assert max(peaks.values()) == pytest.approx(top, rel=WORST)


def gradients(case: Case) -> list[torch.Tensor]:
    """Of every parameter, before they are let go of."""
    trainer = Trainer(case, DEVICE)
    found: list[torch.Tensor] = []

    def edge(index: int) -> None:
        if index == len(case.sequence) - 1:
            grads = (p.grad for p in trainer.model.parameters())
            found.extend(grad.clone() for grad in grads if grad is not None)

    trainer.step(edge)
    return found


@pytest.mark.parametrize("changes", [{"checkpoint": 1}, {"checkpoint": "all"}, {"accumulate": 4}])
def test_gradients_are_those_of_the_plain_step(changes: dict[str, object]) -> None:
    """fp32 without TF32; sums in another order differ by 1e-4 of a tensor's largest gradient."""
    base = {"model": msgspec.to_builtins(load_models()["tiny"]), "mode": "forward-backward"}
    plain, other = (gradients(msgspec.convert({**base, **each}, Case)) for each in ({}, changes))
    for one, two in zip(plain, other, strict=True):
        assert float((one - two).abs().max() / one.abs().max()) <= 1e-4
