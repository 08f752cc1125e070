"""Models as users write them: of several forms, none of which knows llmprof."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class NanoGPT(nn.Module):
    """The loss in forward; without targets it gives the last position's logits alone."""

    def __init__(self, n_layer: int = 2, n_embd: int = 32, vocab_size: int = 60) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.h = nn.ModuleList(nn.Linear(n_embd, n_embd) for _ in range(n_layer))
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight  # shared

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.wte(idx)
        for layer in self.h:
            x = x + F.gelu(layer(x))
        if targets is None:
            return self.lm_head(x[:, [-1]]), None
        logits = self.lm_head(x)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


class GroupedQueries(nn.Module):
    """A language model with fewer heads of K and V, without RoPE or norms."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.q, self.kv = nn.Linear(32, 32), nn.Linear(32, 2 * 16)
        self.head = nn.Linear(32, 50)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, 4, 8).transpose(1, 2)
        k, v = (part.view(batch, length, 2, 8).transpose(1, 2) for part in self.kv(x).chunk(2, -1))
        out = F.scaled_dot_product_attention(
            q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True
        )
        logits: Tensor = self.head(out.transpose(1, 2).reshape(batch, length, 32))
        return logits


class Peeking(nn.Module):
    """Its forward looks at a value."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(50, 16), nn.Linear(16, 50)

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.head(self.embedding(ids))
        return logits if logits.sum().item() > 0 else -logits


def nano(n_layer: int = 2) -> NanoGPT:
    return NanoGPT(n_layer)


def grouped() -> GroupedQueries:
    return GroupedQueries()


def peeking() -> Peeking:
    return Peeking()


def vision() -> dict[str, Any]:
    def batch(size: int, context: int, device: torch.device) -> tuple[Tensor, Tensor]:
        return (
            torch.randn(size, 3, 8, 8, device=device),
            torch.randint(10, (size,), device=device),
        )

    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    return {
        "module": module,
        "batch": batch,
        "loss": lambda output, given: F.cross_entropy(output, given[1]),
    }


def with_optimizer() -> dict[str, Any]:
    return {
        "module": GroupedQueries(),
        "loss": lambda output, given: output.float().pow(2).mean(),
        "optimizer": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    }
