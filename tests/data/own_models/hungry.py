"""Models whose steps want more memory than any machine has, each in another phase."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

PIBIBYTE = 1 << 50


def _ask() -> Tensor:
    return torch.empty(PIBIBYTE, dtype=torch.uint8)


class _Greedy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        _ask()
        return gradients[0]


class _Model(nn.Module):
    def __init__(self, phase: str) -> None:
        super().__init__()
        self.phase = phase
        self.embedding, self.middle, self.head = (
            nn.Embedding(50, 16),
            nn.Linear(16, 64),
            nn.Linear(64, 50),
        )

    def forward(self, ids: Tensor) -> Tensor:
        x = self.middle(self.embedding(ids))
        if self.phase == "forward":
            _ask()
        if self.phase == "backward":
            x = _Greedy.apply(x)  # type: ignore[no-untyped-call]
        logits: Tensor = self.head(x)
        return logits


class _HungryAdam(torch.optim.AdamW):
    def step(self, closure: Any = None) -> Any:
        super().step(closure)
        _ask()


def forward() -> nn.Module:
    return _Model("forward")


def backward() -> nn.Module:
    return _Model("backward")


def optimizer() -> dict[str, Any]:
    return {"module": _Model(""), "optimizer": _HungryAdam}
