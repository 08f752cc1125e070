"""Models that checkpoint their blocks by themselves: plainly, nested, and the reentrant way."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.down(torch.relu(self.up(self.norm(x))))
        return out


class _Model(nn.Module):
    def __init__(self, nested: bool, reentrant: bool, width: int = 48, layers: int = 4) -> None:
        super().__init__()
        self.nested, self.reentrant = nested, reentrant
        self.embedding, self.head = nn.Embedding(60, width), nn.Linear(width, 60)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(layers))

    def pair(self, x: Tensor, first: int) -> Tensor:
        for block in self.blocks[first : first + 2]:
            x = checkpoint(block, x, use_reentrant=self.reentrant) if self.nested else block(x)
        return x

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for first in range(0, len(self.blocks), 2):
            x = checkpoint(self.pair, x, first, use_reentrant=self.reentrant)
        logits: Tensor = self.head(x)
        return logits


def plain() -> nn.Module:
    return _Model(nested=False, reentrant=False)


def nested() -> nn.Module:
    return _Model(nested=True, reentrant=False)


def reentrant() -> nn.Module:
    return _Model(nested=False, reentrant=True)


def nested_reentrant() -> nn.Module:
    return _Model(nested=True, reentrant=True)
