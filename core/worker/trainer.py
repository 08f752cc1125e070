"""One training step of a case, cut into phases; every probe runs this same step."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from llmprof.core.events import ITS_OWN
from llmprof.core.spec.axes import BY_FIELD, Precision
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape
from llmprof.core.worker.compiling import compiled
from llmprof.core.worker.failures import Unsupported
from llmprof.core.worker.optimizers import build_optimizer, kind_of
from llmprof.core.worker.stepper import Edge
from llmprof.core.worker.task import Call, Task, reference_task

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


def task_of(case: Case, device: torch.device) -> Task:
    """What a step of the case computes, built on the device. Raises what an own model raises."""
    if isinstance(case.model, ModelShape):
        return reference_task(case, device)
    from llmprof.core.worker.own_model import own_task

    return own_task(case, case.model, device)


class Trainer:
    """Model, data and optimizer of a case on a device.

    step(edge) calls edge(0) before the first phase and edge(i) after the i-th phase of the
    case's sequence, which has those of each micro-batch. Each micro-batch's loss is divided by
    their number, so that the summed gradients are those of the whole batch's mean loss.
    `observe`, when set, is given output and loss inside the step: only probes that do not time
    set it.
    """

    def __init__(self, case: Case, device: torch.device) -> None:
        self.case = case
        self.device = device
        torch.manual_seed(case.seed)
        set_precision(case.precision)
        self.task = task_of(case, device)
        self.model = self.task.module
        self.call: Call = self.model if case.compile is None else compiled(self.model, case.compile)
        self.optimizer = self._make_optimizer() if case.mode == "train" else None
        self.scaler = (
            torch.amp.GradScaler(device.type)
            if case.precision == "fp16" and case.mode in ("forward-backward", "train")
            else None
        )
        self.micro_batches = self.task.micro_batches(case.batch_size, case.accumulate)
        self.updates = 0  # optimizer steps asked for; a GradScaler may skip some
        self.observe: Callable[[Any, Tensor | None], None] | None = None
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

    def forward(self, batch: Any) -> Any:
        """The output of the model, or of what was compiled from it, for a batch of the task's."""
        return self.task.run(self.call, batch)

    @property
    def own_optimizer(self) -> str:
        """What a model's factory makes in AdamW's place; "" where it makes none."""
        if self.task.optimizer is None:
            return ""
        return ITS_OWN if self.optimizer is None else kind_of(self.optimizer)

    def _make_optimizer(self) -> torch.optim.Optimizer:
        if self.task.optimizer is None:
            return build_optimizer(self.case.optimizer, self.model.parameters())
        if self.case.optimizer != BY_FIELD["optimizer"].neutral:
            raise Unsupported(
                f"--optimizer {self.case.optimizer}: {self.case.model.name} makes its own optimizer"
            )
        return self.task.optimizer(self.model.parameters())

    def _autocast(self) -> contextlib.AbstractContextManager[None]:
        return autocast(self.case.precision, self.device)

    def _forward(self, mark: Mark) -> None:
        with torch.no_grad():
            self._forward_grad(mark)

    def _forward_grad(self, mark: Mark) -> None:
        mark()
        for batch in self.micro_batches:
            with self._autocast():
                output = self.forward(batch)
            mark()
            if self.observe:
                self.observe(output, None)
            del output

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
        total = self._gradients_of(first, mark)
        for batch in others:
            total = total + self._gradients_of(batch, mark)
        return total

    def _gradients_of(self, batch: Any, mark: Mark) -> Tensor:
        """Add one micro-batch's gradients to the parameters'; its part of the loss, detached."""
        with self._autocast():
            output = self.forward(batch)
            mark()
            loss = self.task.loss(output, batch)
            if len(self.micro_batches) > 1:
                loss = loss / len(self.micro_batches)
        mark()
        if self.observe:
            self.observe(output, loss)
        del output  # its memory is the loss's to keep, not the step's
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
