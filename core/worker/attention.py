"""The attention probe: one causal attention without heads, forward and backward, and its memory.

What goes wrong elsewhere cannot here: Q, K and V require gradients, the mask is built before any
step, and every step lets go of its output before the next one's memory is read.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from llmprof.core import events as ev
from llmprof.core.spec.case import Case
from llmprof.core.worker.compiling import compiled
from llmprof.core.worker.job import Job
from llmprof.core.worker.measuring import measure
from llmprof.core.worker.model import build_attention, causal_mask
from llmprof.core.worker.observe import Observer, sdpa_backend, uses_tf32
from llmprof.core.worker.stepper import Edge
from llmprof.core.worker.trainer import AUTOCAST, autocast, set_precision


class AttentionSteps:
    """Steps of one attention: forward, and unless the mode is forward, backward from random
    output gradients. Q, K, V have shape (batch, length, d), with a heads axis of 1 for SDPA.
    """

    def __init__(self, case: Case, device: torch.device) -> None:
        self.case = case
        self.device = device
        torch.manual_seed(case.seed)
        set_precision(case.precision)
        heads = (1,) if case.attention == "sdpa" else ()
        shape = (case.batch_size, *heads, case.context_length, case.reference.d_model)
        with torch.device(device):
            mask = causal_mask(case.context_length) if case.attention == "naive" else None
            core = build_attention(case.attention, mask)
            self.q, self.k, self.v = (
                torch.randn(shape, requires_grad=case.mode != "forward") for _ in range(3)
            )
            dtype = AUTOCAST.get(case.precision, torch.float32)
            self.gradient = torch.randn(shape, dtype=dtype) if case.mode != "forward" else None
        self.call: Callable[..., Tensor] = core
        if case.compile is not None:
            self.call = compiled(core, case.compile)
        self.output_dtype: torch.dtype | None = None

    def step(self, edge: Edge) -> None:
        """One forward and, where the mode has one, one backward."""
        for tensor in (self.q, self.k, self.v):
            tensor.grad = None
        edge(0)
        with torch.set_grad_enabled(self.gradient is not None):
            output = self._forward()
        edge(1)
        self.output_dtype = output.dtype
        if self.gradient is not None:
            torch.autograd.backward(output, self.gradient)
            edge(2)

    def gradients_exist(self) -> bool | None:
        """Whether Q, K and V all have a gradient that is not zero; None without a backward."""
        if self.gradient is None:
            return None
        gradients = [tensor.grad for tensor in (self.q, self.k, self.v)]
        return all(gradient is not None and bool(gradient.any()) for gradient in gradients)

    def backend(self) -> str | None:
        """What computes the attention."""
        if self.case.attention == "naive":
            return "naive"
        q = self.q.detach().to(AUTOCAST.get(self.case.precision, torch.float32))
        return sdpa_backend(q.requires_grad_(self.gradient is not None), grad=True)

    def _forward(self) -> Tensor:
        with autocast(self.case.precision, self.device):
            return self.call(self.q, self.k, self.v)


class AttentionObserver(Observer):
    """Looks at the tensors that an attention's steps used."""

    def __init__(self, stepper: AttentionSteps) -> None:
        super().__init__(stepper.case, stepper.device)
        self._stepper = stepper

    def report(self, index: int) -> ev.Observed:
        """What really ran."""
        stepper = self._stepper
        dtype = stepper.output_dtype
        return ev.Observed(
            case=index,
            logits_dtype=None if dtype is None else str(dtype).removeprefix("torch."),
            tf32=uses_tf32(stepper.device),
            batch_size=stepper.q.shape[0],
            context_length=stepper.q.shape[-2],
            attention_backend=stepper.backend(),
            qkv_gradients=stepper.gradients_exist(),
            **self.counted(),
        )


def run(job: Job) -> None:
    """Measure the job's case. Raises what the step raises."""
    job.phase = "build"
    stepper = AttentionSteps(job.case, job.device)
    measure(job, stepper, AttentionObserver(stepper))
