"""What really ran, read from tensors and settings rather than from what was asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from llmprof.core import events as ev
from llmprof.core.spec.case import Case
from llmprof.core.spec.own_function import short_name
from llmprof.core.system.processors import Throttling, throttling
from llmprof.core.worker import component_dtypes
from llmprof.core.worker.compiling import Compilation
from llmprof.core.worker.host_pace import host_pace_us, steal_ticks
from llmprof.core.worker.model import SelfAttention
from llmprof.core.worker.trainer import AUTOCAST, Trainer

_BACKENDS = {0: "math", 1: "flash", 2: "efficient", 3: "cudnn", 4: "overrideable"}
TF32_ERROR = 5e-5  # relative: TF32 rounds to 10 bits (about 3e-4), fp32 products stay under 1e-6


class Observer(ABC):
    """Looks before and after measured steps, never during them: what must not happen there is
    counted by torch and the kernel themselves."""

    def __init__(self, case: Case, device: torch.device) -> None:
        self._compiled = case.compile is not None
        self.device = device
        self._device = device if device.type == "cuda" else None
        self._graphs = 0
        self._retries = 0
        self.recompilations: int | None = None
        self.alloc_retries: int | None = None
        self.cpu_wait_percent: float | None = None
        self.throttled_periods: int | None = None
        self.throttled_percent: float | None = None
        self._waited = (0, 0)
        self._throttled: Throttling | None = None
        self.compilation: Compilation | None = None
        self.steal_percent: float | None = None
        self._steal: tuple[int, int] | None = None
        self._pace: list[float] = []
        self.warmup_stop: str | None = None
        self.measure_stop: str | None = None

    def begin(self) -> None:
        """The measured steps are about to start."""
        self._graphs = _graphs()
        self._retries = self._count_retries()
        self._waited = waited_for_cpu()
        self._steal = steal_ticks()
        self._throttled = throttling()

    def end(self) -> None:
        """The measured steps have ended."""
        if self._compiled:
            self.recompilations = _graphs() - self._graphs
        if self._device is not None:
            self.alloc_retries = self._count_retries() - self._retries
        before, after = self._waited, waited_for_cpu()
        ran, waited = (late - early for early, late in zip(before, after, strict=True))
        if ran + waited > 0:
            self.cpu_wait_percent = 100 * waited / (ran + waited)
        now = throttling()
        if now is not None and self._throttled is not None:
            since = now.since(self._throttled)
            self.throttled_periods = since.periods
            if ran + since.time_ns > 0:
                self.throttled_percent = 100 * since.time_ns / (ran + since.time_ns)
        ticks = steal_ticks()
        if self._steal is not None and ticks is not None and ticks[1] > self._steal[1]:
            stolen, passed = ticks[0] - self._steal[0], ticks[1] - self._steal[1]
            self.steal_percent = 100 * stolen / passed

    def read_pace(self) -> None:
        """Measure how fast the host is now, outside all steps."""
        self._pace.append(host_pace_us(self.device))

    def counted(self) -> dict[str, Any]:
        """What was counted, as fields of an Observed."""
        names = ("recompilations", "alloc_retries",
                 "cpu_wait_percent", "throttled_periods", "throttled_percent", "steal_percent",
                 "warmup_stop", "measure_stop")  # fmt: skip
        counted = {name: getattr(self, name) for name in names}
        return counted | self._compiled_fields() | {"host_pace_us": tuple(self._pace) or None}

    def _compiled_fields(self) -> dict[str, Any]:
        found = self.compilation
        if found is None:
            return {}
        return {
            "compile_ms": found.ms,
            "compile_loss": found.loss,
            "graphs": found.graphs,
            "graph_breaks": found.breaks,
            "first_break": found.first_break,
        }

    @abstractmethod
    def report(self, index: int) -> ev.Observed:
        """Look at what ran, after the measured steps."""

    def _count_retries(self) -> int:
        if self._device is None:
            return 0
        return int(torch.cuda.memory_stats(self._device).get("num_alloc_retries", 0))


class TrainerObserver(Observer):
    """Looks at a trainer."""

    def __init__(self, trainer: Trainer) -> None:
        super().__init__(trainer.case, trainer.device)
        self._trainer = trainer
        self._attention = next(
            (module for module in trainer.model.modules() if isinstance(module, SelfAttention)),
            None,
        )
        self._trained = (
            next(p for p in trainer.model.parameters() if p.requires_grad)
            if self._attention is None
            else self._attention.q_proj.weight
        )
        self._before = self._sample()

    def report(self, index: int) -> ev.Observed:
        """Run one step more, looking into it, and tell what ran."""
        seen: dict[str, str] = {}
        gradients: list[bool | None] = []
        name_of = component_dtypes.name_of

        def observe(output: Any, loss: Tensor | None) -> None:
            logits = _first_of_numbers(output)
            if logits is not None:
                seen["logits"] = name_of(logits.dtype)
            if loss is not None:
                seen["loss"] = name_of(loss.dtype)

        def edge(at: int) -> None:
            if at == done:
                gradients.append(self._has_gradients())
                if self._trained.grad is not None:
                    seen["gradients"] = name_of(self._trained.grad.dtype)

        trainer = self._trainer
        done = last_backward(trainer.case)
        size = self._batch_size()
        changed = None if trainer.optimizer is None else self._sample() != self._before
        trainer.observe = observe
        with self._watched() as inner:
            trainer.step(edge)
        trainer.observe = None
        return ev.Observed(
            case=index,
            logits_dtype=seen.get("logits"),
            loss_dtype=seen.get("loss"),
            tf32=uses_tf32(trainer.device),
            batch_size=None if size is None else size[0],
            context_length=None if size is None or len(size) < 2 else size[1],
            forward_flops=self._operations(),
            attention_backend=self._backend(),
            parameters_changed=changed,
            updates_skipped=self._skipped(),
            qkv_gradients=gradients[0] if gradients else None,
            dtypes=component_dtypes.held(trainer) | inner | seen,
            sums=self._sums(),
            **self.counted(),
        )

    def _watched(self) -> AbstractContextManager[dict[str, str]]:
        """Look into the modules of an eager model; hooks would break a compiled one's graph."""
        trainer = self._trainer
        compiled = trainer.case.compile is not None
        return nullcontext({}) if compiled else component_dtypes.watched(trainer)

    def _sums(self) -> tuple[ev.SumSeen, ...]:
        """How sums of many terms come out in a mixed precision."""
        dtype = AUTOCAST.get(self._trainer.case.precision)
        return () if dtype is None else component_dtypes.sums_in(dtype, self._trainer.device)

    def _skipped(self) -> int | None:
        """Steps in which the GradScaler found an infinite gradient and left the weights alone."""
        trainer = self._trainer
        if trainer.scaler is None or trainer.optimizer is None:
            return None
        state = trainer.optimizer.state.get(self._trained, {})
        steps = state.get("step", state.get("t"))
        return None if steps is None else trainer.updates - int(steps)

    def _sample(self) -> list[float]:
        values: list[float] = self._trained.detach().flatten()[:256].tolist()
        return values

    def _has_gradients(self) -> bool | None:
        if self._attention is None:
            return None
        projections = (self._attention.q_proj, self._attention.k_proj, self._attention.v_proj)
        return all(p.weight.grad is not None and bool(p.weight.grad.any()) for p in projections)

    def _batch_size(self) -> tuple[int, ...] | None:
        """The size of the batch's first tensor, where it is one of token ids."""
        task = self._trainer.task
        if task.unit != "tokens":
            return None
        return next((tuple(tensor.shape) for _, tensor in task.tensors), None)

    def _operations(self) -> int | None:
        """Operations of an own model's forward, as torch counts them in one that is not timed."""
        if self._trainer.case.shape is not None or self._compiled:
            return None
        return counted_operations(self._trainer)

    def _backend(self) -> str | None:
        case = self._trainer.case
        if case.shape is None:
            return None
        if case.attention != "sdpa":
            return short_name(case.attention)
        dtype = AUTOCAST.get(case.precision, torch.float32)
        shape = (case.batch_size, case.shape.num_heads, case.context_length, case.shape.head_dim)
        q = torch.empty(shape, dtype=dtype, device=self._trainer.device, requires_grad=True)
        return sdpa_backend(q, grad=case.mode != "forward")


def last_backward(case: Case) -> int | None:
    """The edge at which a step has all its gradients; None for a mode without a backward."""
    edges = [at for at, phase in enumerate(case.sequence, 1) if phase == "backward"]
    return edges[-1] if edges else None


def _first_of_numbers(output: Any) -> Tensor | None:
    """The first tensor of an output that is no loss: the logits of what returns several."""
    logits = getattr(output, "logits", None)
    if isinstance(logits, Tensor):
        return logits
    tensors = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)]
    return next((tensor for tensor in tensors if tensor.ndim), None)


def counted_operations(trainer: Trainer) -> int:
    """Operations of one forward of a trainer's batch: products, convolutions, attentions.

    torch's counter knows no fused attention of the CPU, whose operations are those of the card's
    (torch.utils.flop_counter.sdpa_flop_count: 4·B·H·L²·d in full).
    """
    known = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _fused_on_cpu}
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=known) as counter:
        trainer.forward(trainer.task.batch)
    return int(counter.get_total_flops())


def _fused_on_cpu(q: Any, k: Any, v: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(q, k, v))  # type: ignore[no-untyped-call]


def sdpa_backend(q: Tensor, *, grad: bool) -> str | None:
    """The kernel that scaled_dot_product_attention picks for causal attention of such a tensor."""
    choose = getattr(torch, "_fused_sdp_choice", None)
    if choose is None:
        return None
    with torch.set_grad_enabled(grad):
        return _BACKENDS.get(int(choose(q, q, q, None, 0.0, True)))


def uses_tf32(device: torch.device) -> bool:
    """Whether fp32 matrix products on this device are rounded to TF32: one is computed."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(256, 256, generator=generator, dtype=torch.float64) for _ in range(2))
    exact = a @ b
    product = (a.float().to(device) @ b.float().to(device)).double().cpu()
    return float((product - exact).norm() / exact.norm()) > TF32_ERROR


def _graphs() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


def waited_for_cpu() -> tuple[int, int]:
    """Nanoseconds this process's threads have run, and have waited for a core while runnable.

    From /proc/self/task/*/schedstat (Documentation/scheduler/sched-stats.rst in the kernel);
    zeros where the kernel doesn't count them.
    """
    ran = waited = 0
    for path in Path("/proc/self/task").glob("*/schedstat"):
        try:
            fields = path.read_text().split()
            ran, waited = ran + int(fields[0]), waited + int(fields[1])
        except (OSError, ValueError, IndexError):
            continue  # a thread that has just ended
    return ran, waited
