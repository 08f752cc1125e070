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
from llmprof.core.spec.own_function import is_function, short_name
from llmprof.core.worker.attention_errors import errors_of
from llmprof.core.worker.attention_functions import refuse_unless_runs, sdpa_with
from llmprof.core.worker.clock import phase_clock
from llmprof.core.worker.compiling import compiled
from llmprof.core.worker.job import Job
from llmprof.core.worker.measuring import measure
from llmprof.core.worker.model import build_attention, causal_mask
from llmprof.core.worker.observe import Observer, sdpa_backend, uses_tf32
from llmprof.core.worker.stepper import Edge
from llmprof.core.worker.trainer import AUTOCAST, autocast, set_precision

CPU_CACHE = 64 << 20  # more than the last-level cache that one process of a CPU commonly has


def flushed_bytes(device: torch.device) -> int:
    """Bytes that are written to leave nothing of what was there in the device's L2 cache."""
    if device.type != "cuda":
        return CPU_CACHE
    return 4 * int(torch.cuda.get_device_properties(device).L2_cache_size)


def wants_errors(case: Case) -> bool:
    """Whether an attention is compared with the reference: kernels, and what the user wrote."""
    return case.cold_cache or is_function(case.attention)


class AttentionSteps:
    """Steps of one attention: forward, and unless the mode is forward, backward from random
    output gradients. Q, K, V have shape (batch, length, d), with a heads axis of 1 for SDPA.

    With a cold cache they have the case's dtype, and before each timed call the device's L2
    cache is overwritten, which no phase counts: `resume` tells the clock.
    """

    def __init__(self, case: Case, device: torch.device) -> None:
        self.case = case
        self.device = device
        self.resume: Callable[[], None] = lambda: None
        torch.manual_seed(case.seed)
        set_precision(case.precision)
        heads = () if case.attention == "naive" else (1,)
        shape = (case.batch_size, *heads, case.context_length, case.reference.d_model)
        with torch.device(device):
            mask = causal_mask(case.context_length) if case.attention == "naive" else None
            core: Callable[..., Tensor] = build_attention(case.attention, mask)
            if case.sdpa_backend is not None:
                core = sdpa_with(case.sdpa_backend, device)
            dtype = AUTOCAST.get(case.precision, torch.float32)
            own = dtype if case.cold_cache else torch.float32
            grad = case.mode != "forward"
            self.q, self.k, self.v = (
                torch.randn(shape, dtype=own, requires_grad=grad) for _ in range(3)
            )
            self.gradient = torch.randn(shape, dtype=dtype) if grad else None
            other = flushed_bytes(device) if case.cold_cache else 0
            self._other = torch.empty(other, dtype=torch.uint8)
        if case.sdpa_backend is not None:
            refuse_unless_runs(core, case.sdpa_backend, self.q, self.k, self.v)
        self.call: Callable[..., Tensor] = core
        if case.compile is not None:
            self.call = compiled(core, case.compile)
        self.output_dtype: torch.dtype | None = None

    def step(self, edge: Edge) -> None:
        """One forward and, where the mode has one, one backward."""
        for tensor in (self.q, self.k, self.v):
            tensor.grad = None
        if self.case.cold_cache:
            self._other.zero_()
        edge(0)
        with torch.set_grad_enabled(self.gradient is not None):
            output = self.attend()
        edge(1)
        self.output_dtype = output.dtype
        if self.gradient is not None:
            if self.case.cold_cache:
                self._other.zero_()
                self.resume()
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
        if self.case.attention != "sdpa":
            return short_name(self.case.attention)
        if self.case.sdpa_backend is not None:
            return self.case.sdpa_backend
        q = self.q.detach().to(AUTOCAST.get(self.case.precision, torch.float32))
        return sdpa_backend(q.requires_grad_(self.gradient is not None), grad=True)

    def attend(self) -> Tensor:
        """One forward."""
        if self.case.cold_cache:
            return self.call(self.q, self.k, self.v)
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
            errors=errors_of(stepper) if wants_errors(stepper.case) else None,
            **self.counted(),
        )


def run(job: Job) -> None:
    """Measure the job's case. Raises what the step raises."""
    job.phase = "build"
    stepper = AttentionSteps(job.case, job.device)
    clock = phase_clock(job.device, job.case.sequence)
    stepper.resume = clock.resume
    measure(job, stepper, AttentionObserver(stepper), clock)
