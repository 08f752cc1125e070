"""One training step of a case, cut into phases; every probe runs this same step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from llmprof.core.spec.axes import Precision
from llmprof.core.spec.case import Case
from llmprof.core.worker.compiling import compiled
from llmprof.core.worker.model import build_model
from llmprof.core.worker.optimizers import build_optimizer
from llmprof.core.worker.stepper import Edge

AUTOCAST: dict[Precision, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}


def set_precision(precision: Precision) -> None:
    """Set fp32 matrix products to true fp32 ("highest") or TF32 ("high"), process-wide."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


def autocast(precision: Precision, device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Autocast for the half precisions, nothing for the others."""
    dtype = AUTOCAST.get(precision)
    if dtype is None:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=dtype)


class Trainer:
    """Model, data and optimizer of a case on a device.

    step(edge) calls edge(0) before the first phase and edge(i) after the i-th phase of the
    case's mode; `after` has the i of each phase. `observe`, when set, is given logits and loss
    inside the step: only probes that do not time set it.
    """

    def __init__(self, case: Case, device: torch.device) -> None:
        self.case = case
        self.device = device
        torch.manual_seed(case.seed)
        set_precision(case.precision)
        self.model = build_model(case.model, case.attention, case.context_length, device)
        self.call: Callable[[Tensor], Tensor] = (
            self.model if case.compile is None else compiled(self.model, case.compile)
        )
        generator = torch.Generator().manual_seed(case.seed)
        sample = torch.randint(
            case.model.vocab_size,
            (case.batch_size, case.context_length + 1),
            generator=generator,
        ).to(device)
        self.tokens = sample[:, :-1].contiguous()
        self.targets = sample[:, 1:].contiguous()
        self.optimizer = (
            build_optimizer(case.optimizer, self.model.parameters())
            if case.mode == "train"
            else None
        )
        self.scaler = (
            torch.amp.GradScaler(device.type)
            if case.precision == "fp16" and case.mode in ("forward-backward", "train")
            else None
        )
        self.after = {phase: at for at, phase in enumerate(case.phases, 1)}
        self.updates = 0  # optimizer steps asked for; a GradScaler may skip some
        self.observe: Callable[[Tensor, Tensor | None], None] | None = None
        self._step = {
            "forward": self._forward,
            "forward-grad": self._forward_grad,
            "forward-backward": self._backward,
            "train": self._train,
        }[case.mode]

    def step(self, edge: Edge) -> Tensor | None:
        """Run one step; the loss, detached, where the mode has one."""
        return self._step(edge)

    def _autocast(self) -> contextlib.AbstractContextManager[None]:
        return autocast(self.case.precision, self.device)

    def _forward(self, edge: Edge) -> None:
        with torch.no_grad():
            self._forward_grad(edge)

    def _forward_grad(self, edge: Edge) -> None:
        edge(0)
        with self._autocast():
            logits = self.call(self.tokens)
        edge(self.after["forward"])
        if self.observe:
            self.observe(logits, None)

    def _backward(self, edge: Edge) -> Tensor:
        loss = self._loss_and_gradients(edge)
        self._zero_grad(edge)
        return loss

    def _train(self, edge: Edge) -> Tensor:
        loss = self._loss_and_gradients(edge)
        self._update()
        edge(self.after["optimizer"])
        self._zero_grad(edge)
        return loss

    def _zero_grad(self, edge: Edge) -> None:
        self.model.zero_grad(set_to_none=True)
        edge(self.after["zero_grad"])

    def _loss_and_gradients(self, edge: Edge) -> Tensor:
        edge(0)
        with self._autocast():
            logits = self.call(self.tokens)
            edge(self.after["forward"])
            loss = F.cross_entropy(logits.flatten(0, 1), self.targets.flatten())
        edge(self.after["loss"])
        if self.observe:
            self.observe(logits, loss)
        del logits  # its memory is the loss's to keep, not the step's
        scaled = loss if self.scaler is None else self.scaler.scale(loss)
        scaled.backward()  # type: ignore[no-untyped-call]
        edge(self.after["backward"])
        return loss.detach()

    def _update(self) -> None:
        assert self.optimizer is not None
        self.updates += 1
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.unscale_(self.optimizer)
            self.scaler.step(self.optimizer)
            self.scaler.update()
