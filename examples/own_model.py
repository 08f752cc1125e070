"""A model of your own, as `llmprof run --model examples/own_model.py:build` measures it.

Copy this file, put your model in, and keep `build`: a function that returns the module. What
llmprof must know beside it, it asks of the module or of the dict that `build` may return.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """Pre-norm attention and feed-forward."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Transform x of shape (batch, length, width)."""
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        out: Tensor = x + self.down(F.gelu(self.up(self.norm2(x))))
        return out


class GPT(nn.Module):
    """Token ids of shape (batch, length) in, logits of shape (batch, length, vocabulary) out."""

    def __init__(self, vocabulary: int, length: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of the next token at every position."""
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.blocks(self.tokens(ids) + self.positions(places))
        logits: Tensor = self.head(self.norm(x))
        return logits


def build(width: int = 128, layers: int = 2, heads: int = 4, context_length: int = 128) -> GPT:
    """The model. context_length is filled in; the others are set as in --model-arg width=256."""
    return GPT(vocabulary=1000, length=context_length, width=width, layers=layers, heads=heads)


def with_own_parts(width: int = 128) -> dict[str, object]:
    """The same with a loss and an optimizer of one's own."""

    def loss(logits: Tensor, batch: object) -> Tensor:
        targets: Tensor = batch.targets  # type: ignore[attr-defined]
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1)

    return {
        "module": build(width),
        "loss": loss,
        "optimizer": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    }
