"""A file that cannot be imported."""

from __future__ import annotations

from torch import nn

TABLE = {"width": 16}
WIDTH = TABLE["wdith"]


def build() -> nn.Module:
    return nn.Linear(WIDTH, WIDTH)
