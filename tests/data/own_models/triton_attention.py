"""A FlashAttention of a page, as people write one: the forward in Triton, the backward in torch.

The forward keeps the logarithm of each row's sum, from which the backward has the probabilities
again. q, k and v are (batch, heads, context, head_dim), head_dim a power of two of at least 16.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = 64  # queries of a program, and keys that it takes at a time


# Triton reads the annotations of what it compiles, and knows its own alone.
@triton.jit  # type: ignore[untyped-decorator]
def forward_kernel(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    queries, keys, values, outputs, sums, context, scale,
    dim: tl.constexpr, size: tl.constexpr,
):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1)
    dims = tl.arange(0, dim)
    rows = block * size + tl.arange(0, size)
    base = head * context * dim
    there = rows[:, None] < context
    q = tl.load(queries + base + rows[:, None] * dim + dims[None, :], mask=there, other=0.0)
    most = tl.full((size,), float("-inf"), tl.float32)
    total = tl.zeros((size,), tl.float32)
    out = tl.zeros((size, dim), tl.float32)
    for start in range(0, (block + 1) * size, size):  # a causal row sees no later key
        at_keys = start + tl.arange(0, size)
        known = at_keys[:, None] < context
        at = base + at_keys[:, None] * dim + dims[None, :]
        k = tl.load(keys + at, mask=known, other=0.0)
        v = tl.load(values + at, mask=known, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(rows[:, None] >= at_keys[None, :], scores, float("-inf"))
        higher = tl.maximum(most, tl.max(scores, 1))
        shrink = tl.exp(most - higher)
        p = tl.exp(scores - higher[:, None])
        total = total * shrink + tl.sum(p, 1)
        out = out * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        most = higher
    out = out / total[:, None]
    at = base + rows[:, None] * dim + dims[None, :]
    tl.store(outputs + at, out.to(outputs.dtype.element_ty), mask=there)
    tl.store(sums + head * context + rows, most + tl.log(total), mask=rows < context)


class FlashAttention(torch.autograd.Function):
    """Causal attention, scaled by 1/√head_dim."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, heads, context, dim = q.shape
        out = torch.empty_like(q)
        lse = torch.empty((batch, heads, context), dtype=torch.float32, device=q.device)
        ctx.scale = 1 / math.sqrt(dim)
        grid = (triton.cdiv(context, ROWS), batch * heads)
        forward_kernel[grid](q, k, v, out, lse, context, ctx.scale, dim=dim, size=ROWS)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, out, lse = ctx.saved_tensors
        scores = (q @ k.transpose(-2, -1)).float() * ctx.scale
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        p = torch.exp(scores.masked_fill(future, -math.inf) - lse[..., None])
        grad_p = (grad @ v.transpose(-2, -1)).float()
        inner = (grad.float() * out.float()).sum(-1, keepdim=True)
        grad_scores = (p * (grad_p - inner) * ctx.scale).to(q.dtype)
        return (
            grad_scores @ k,
            grad_scores.transpose(-2, -1) @ q,
            p.to(v.dtype).transpose(-2, -1) @ grad,
        )


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """What `--attention triton_attention.py:attend` runs."""
    out: Tensor = FlashAttention.apply(q, k, v)  # type: ignore[no-untyped-call]
    return out
