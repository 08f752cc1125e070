"""AdamW three ways: torch's foreach and fused, and a loop a tensor at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import AdamW, Optimizer

from llmprof.core.spec.axes import OptimizerKind
from llmprof.core.system.text import clean

LEARNING_RATE = 1e-4
BETAS = (0.9, 0.95)
EPS = 1e-8
WEIGHT_DECAY = 0.1


class LoopAdamW(Optimizer):
    """AdamW written out per tensor, as students write it: in place, one kernel an operation."""

    def __init__(self, params: Iterable[Tensor]) -> None:
        super().__init__(params, {"lr": LEARNING_RATE})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient (Loshchilov & Hutter, 2019, algorithm 2)."""
        beta1, beta2 = BETAS
        for group in self.param_groups:
            lr = group["lr"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["t"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["t"] += 1
                m, v, t = state["exp_avg"], state["exp_avg_sq"], state["t"]
                m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                rate = lr * math.sqrt(1 - beta2**t) / (1 - beta1**t)
                p.mul_(1 - lr * WEIGHT_DECAY)
                p.addcdiv_(m, v.sqrt().add_(EPS), value=-rate)


def kind_of(optimizer: Optimizer) -> str:
    """An optimizer's class, and the implementation that it was asked for: SGD, fused AdamW."""
    asked = [way for way in ("fused", "foreach") if optimizer.defaults.get(way)]
    return clean(" ".join((*asked, type(optimizer).__name__)), 60)


def build_optimizer(kind: OptimizerKind, params: Iterable[Tensor]) -> Optimizer:
    """The optimizer of a kind, without state yet."""
    if kind == "loop":
        return LoopAdamW(params)
    return AdamW(
        params,
        lr=LEARNING_RATE,
        betas=BETAS,
        eps=EPS,
        weight_decay=WEIGHT_DECAY,
        foreach=kind == "foreach",
        fused=kind == "fused",
    )
