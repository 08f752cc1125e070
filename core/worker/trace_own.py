"""One step of a user's own model on fake tensors, at its full depth."""

from __future__ import annotations

import contextlib
from unittest import mock

import msgspec
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from llmprof.core.predict.traced_depth import PhaseTrace, phase_trace
from llmprof.core.spec.case import Case
from llmprof.core.worker.as_cuda import CudaHabits, cuda_scratch
from llmprof.core.worker.storage_tracker import StorageTracker
from llmprof.core.worker.trainer import Trainer

CPU = torch.device("cpu")


def trace_own(case: Case, capability: tuple[int, int] | None) -> tuple[int, bool, list[PhaseTrace]]:
    """Parameters, whether a product has a bias, and the phases of a step.

    For a card of a capability, or with None for the CPU.

    Raises what the model raises where it looks at values that fake tensors do not have.
    """
    eager = msgspec.structs.replace(case, compile=None)
    if case.precision == "fp16":  # a GradScaler looks at values; the bytes are the same
        eager = msgspec.structs.replace(eager, precision="bf16")
    tracker = StorageTracker(None if capability is None else cuda_scratch(capability))
    names = (*eager.sequence, "end")
    with FakeTensorMode(), mock.patch("torch.optim.adam._get_value", return_value=2.0):
        trainer = Trainer(eager, CPU)
        _make_state(trainer)
        habits = contextlib.nullcontext() if capability is None else CudaHabits(capability)
        with habits, tracker:
            tracker.count(*trainer.model.parameters(), *trainer.model.buffers())
            tracker.count(*(tensor for _, tensor in trainer.task.tensors))
            tracker.count(*_state(trainer))
            trainer.step(lambda index: tracker.edge(names[index]))
        modules = trainer.model.modules()
        biased = any(isinstance(m, nn.Linear) and m.bias is not None for m in modules)
        parameters = sum(p.numel() for p in trainer.model.parameters())
    spans = [span for span in tracker.spans if span.name != "end"]
    return (
        parameters,
        biased,
        [
            phase_trace(s.name, s.start, s.end, [(m.op, m.size, m.level) for m in s.moments])
            for s in spans
        ],
    )


def _make_state(trainer: Trainer) -> None:
    """Let the optimizer make its state: a first update, of gradients that hold nothing."""
    if trainer.optimizer is None:
        return
    for p in trainer.model.parameters():
        if p.requires_grad:
            p.grad = torch.zeros_like(p)
    trainer.optimizer.step()
    trainer.model.zero_grad(set_to_none=True)


def _state(trainer: Trainer) -> list[torch.Tensor]:
    """The optimizer's tensors but for step counts, which lie elsewhere or are rounding."""
    if trainer.optimizer is None:
        return []
    return [
        value
        for state in trainer.optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor) and value.ndim
    ]
