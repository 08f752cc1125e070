"""Attentions as users write them."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def attend(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Tensor:
    scores = q @ k.transpose(-2, -1) * scale
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    return torch.softmax(scores, dim=-1) @ v


def sees_the_future(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attend(q, k, v, False, 1 / math.sqrt(q.shape[-1]))


def without_backward(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    with torch.no_grad():
        return sees_the_future(q, k, v)


def broken(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.cat((q, k), dim=-1) @ v
