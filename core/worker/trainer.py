"""One training step of a case, cut into phases; every probe runs this same step."""

from __future__ import annotations

import contextlib
import itertools
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


Mark = Callable[[], None]


class Trainer:
    """Model, data and optimizer of a case on a device.

    step(edge) calls edge(0) before the first phase and edge(i) after the i-th phase of the
    case's sequence, which has those of each micro-batch. Each micro-batch's loss is divided by
    their number, so that the summed gradients are those of the whole batch's mean loss.
    `observe`, when set, is given logits and loss inside the step: only probes that do not time
    set it.
    """

    def __init__(self, case: Case, device: torch.device) -> None:
        self.case = case
        self.device = device
        torch.manual_seed(case.seed)
        set_precision(case.precision)
        self.model = build_model(
            case.model, case.attention, case.context_length, device, case.blocks_a_checkpoint
        )
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
        size = case.batch_size // case.accumulate
        self.micro_batches = tuple(
            zip(torch.split(self.tokens, size), torch.split(self.targets, size), strict=True)
        )
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
        at = itertools.count()
        return self._step(lambda: edge(next(at)))

    def _autocast(self) -> contextlib.AbstractContextManager[None]:
        return autocast(self.case.precision, self.device)

    def _forward(self, mark: Mark) -> None:
        with torch.no_grad():
            self._forward_grad(mark)

    def _forward_grad(self, mark: Mark) -> None:
        mark()
        for tokens, _ in self.micro_batches:
            with self._autocast():
                logits = self.call(tokens)
            mark()
            if self.observe:
                self.observe(logits, None)
            del logits

    def _backward(self, mark: Mark) -> Tensor:
        loss = self._loss_and_gradients(mark)
        self._zero_grad(mark)
        return loss

    def _train(self, mark: Mark) -> Tensor:
        loss = self._loss_and_gradients(mark)
        self._update()
        mark()  # the optimizer's end
        self._zero_grad(mark)
        return loss

    def _zero_grad(self, mark: Mark) -> None:
        self.model.zero_grad(set_to_none=True)
        mark()

    def _loss_and_gradients(self, mark: Mark) -> Tensor:
        mark()
        first, *others = self.micro_batches
        total = self._gradients_of(*first, mark)
        for tokens, targets in others:
            total = total + self._gradients_of(tokens, targets, mark)
        return total

    def _gradients_of(self, tokens: Tensor, targets: Tensor, mark: Mark) -> Tensor:
        """Add one micro-batch's gradients to the parameters'; its part of the loss, detached."""
        with self._autocast():
            logits = self.call(tokens)
            mark()
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
            if len(self.micro_batches) > 1:
                loss = loss / len(self.micro_batches)
        mark()
        if self.observe:
            self.observe(logits, loss)
        del logits  # its memory is the loss's to keep, not the step's
        scaled = loss if self.scaler is None else self.scaler.scale(loss)
        scaled.backward()  # type: ignore[no-untyped-call]
        mark()
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
