"""What really ran, read from tensors and settings rather than from what was asked."""

from __future__ import annotations

import torch
from torch import Tensor

from llmprof.core import events as ev
from llmprof.core.worker.model import SelfAttention
from llmprof.core.worker.trainer import AUTOCAST, Trainer

_BACKENDS = {0: "math", 1: "flash", 2: "efficient", 3: "cudnn", 4: "overrideable"}
TF32_ERROR = 5e-5  # relative: TF32 rounds to 10 bits (about 3e-4), fp32 products stay under 1e-6


class Observer:
    """Looks at a trainer before and after its measured steps, never during them."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._attention = next(
            module for module in trainer.model.modules() if isinstance(module, SelfAttention)
        )
        self._before = self._sample()
        self._graphs = 0
        self._recompilations: int | None = None

    def begin(self) -> None:
        """The measured steps are about to start."""
        self._graphs = _graphs()

    def end(self) -> None:
        """The measured steps have ended."""
        if self._trainer.case.compile is not None:
            self._recompilations = _graphs() - self._graphs

    def report(self, index: int) -> ev.Observed:
        """Run one step more, looking into it, and tell what ran."""
        seen: dict[str, str | None] = {}
        gradients: list[bool] = []

        def observe(logits: Tensor, loss: Tensor | None) -> None:
            seen["logits"] = str(logits.dtype).removeprefix("torch.")
            seen["loss"] = None if loss is None else str(loss.dtype).removeprefix("torch.")

        def edge(at: int) -> None:
            if at == 3:
                gradients.append(self._has_gradients())

        trainer = self._trainer
        changed = None if trainer.optimizer is None else self._sample() != self._before
        trainer.observe = observe
        trainer.step(edge)
        trainer.observe = None
        return ev.Observed(
            case=index,
            logits_dtype=seen.get("logits"),
            loss_dtype=seen.get("loss"),
            tf32=uses_tf32(trainer.device),
            batch_size=trainer.tokens.shape[0],
            context_length=trainer.tokens.shape[1],
            attention_backend=self._backend(),
            parameters_changed=changed,
            qkv_gradients=gradients[0] if gradients else None,
            recompilations=self._recompilations,
        )

    def _sample(self) -> list[float]:
        weight = self._attention.q_proj.weight.detach()
        values: list[float] = weight.flatten()[:256].tolist()
        return values

    def _has_gradients(self) -> bool:
        projections = (self._attention.q_proj, self._attention.k_proj, self._attention.v_proj)
        return all(p.weight.grad is not None and bool(p.weight.grad.any()) for p in projections)

    def _backend(self) -> str | None:
        case = self._trainer.case
        if case.attention == "naive":
            return "naive"
        choose = getattr(torch, "_fused_sdp_choice", None)
        if choose is None:
            return None
        dtype = AUTOCAST.get(case.precision, torch.float32)
        shape = (case.batch_size, case.model.num_heads, case.context_length, case.model.head_dim)
        q = torch.empty(shape, dtype=dtype, device=self._trainer.device, requires_grad=True)
        with torch.set_grad_enabled(case.mode != "forward"):
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
