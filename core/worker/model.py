"""The reference model: pre-norm decoder with RMSNorm, RoPE, causal attention and SwiGLU."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from llmprof.core.spec.axes import Attention
from llmprof.core.spec.own_function import is_function, short_name
from llmprof.core.spec.shape import ModelShape
from llmprof.core.worker.failures import Unsupported
from llmprof.core.worker.own_code import load_attention, put_back, wanted_arguments


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last dimension, with a gain."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x of shape (..., d_model), in fp32 whatever x is."""
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * scale * self.weight).to(x.dtype)


class RoPE(nn.Module):
    """Rotary position embedding with tables computed once for the longest context."""

    cos: Tensor
    sin: Tensor

    def __init__(self, head_dim: int, context_length: int, theta: float) -> None:
        super().__init__()
        frequency = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
        angle = torch.outer(torch.arange(context_length, dtype=torch.float32), frequency)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Rotate pairs of features of x, shape (batch, heads, length, head_dim)."""
        length = x.shape[-2]
        cos, sin = self.cos[:length].to(x.dtype), self.sin[:length].to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
        return rearrange(turned, "... half two -> ... (half two)")


class NaiveAttention(nn.Module):
    """Softmax(QKᵀ/√d + mask)·V with the scores written to memory."""

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend, all tensors of shape (..., length, head_dim)."""
        length = q.shape[-2]
        scores = self.scores(q, k)
        masked = self.masked(scores, self.mask[:length, :length])
        return self.values(self.softmax(masked), v)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """QKᵀ/√d."""
        return (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])

    def masked(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Scores with the future at -inf."""
        return scores.masked_fill(mask, -math.inf)

    def softmax(self, scores: Tensor) -> Tensor:
        """Softmax over the keys."""
        return torch.softmax(scores, dim=-1)

    def values(self, weights: Tensor, v: Tensor) -> Tensor:
        """Weighted values; under autocast the weights take the values' dtype."""
        return weights @ v


class FusedAttention(nn.Module):
    """torch's scaled_dot_product_attention, whichever kernel it picks."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend causally, all tensors of shape (batch, heads, length, head_dim)."""
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class OwnAttention(nn.Module):
    """A function of the user's own: f(q, k, v), given causal and scale where it names them.

    Raises Unsupported for one without a backward where a backward is wanted.
    """

    def __init__(self, value: str) -> None:
        super().__init__()
        self._name = short_name(value)
        with put_back(self._name):
            function = load_attention(value)
        self._function = function
        self._wanted = wanted_arguments(function, ("causal", "scale"))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend causally, all tensors of shape (batch, heads, length, head_dim)."""
        known = {"causal": True, "scale": 1 / math.sqrt(q.shape[-1])}
        out: Tensor = self._function(q, k, v, **{name: known[name] for name in self._wanted})
        if torch.is_grad_enabled() and q.requires_grad and not out.requires_grad:
            raise Unsupported(f"{self._name} has no backward: its output has no gradient function")
        return out


def causal_mask(context_length: int) -> Tensor:
    """True above the diagonal: what a position must not see. Shape (length, length)."""
    return torch.ones(context_length, context_length, dtype=torch.bool).triu(1)


def build_attention(kind: Attention, mask: Tensor | None) -> nn.Module:
    """The attention core of a kind; only the naive one needs the mask."""
    if is_function(kind):
        return OwnAttention(kind)
    if kind == "sdpa" or mask is None:
        return FusedAttention()
    return NaiveAttention(mask)


class SelfAttention(nn.Module):
    """Causal multi-head self-attention, grouped when there are fewer K/V heads."""

    def __init__(self, shape: ModelShape, core: nn.Module) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = shape.num_heads, shape.num_kv_heads
        d, kv, bias = shape.d_model, shape.kv_dim, shape.qkv_bias
        self.q_proj = nn.Linear(d, d, bias=bias)
        self.k_proj = nn.Linear(d, kv, bias=bias)
        self.v_proj = nn.Linear(d, kv, bias=bias)
        self.o_proj = nn.Linear(d, d, bias=False)
        self.core = core

    def forward(self, x: Tensor, rope: RoPE) -> Tensor:
        """Attend within x of shape (batch, length, d_model)."""
        split = "b t (h d) -> b h t d"
        q = rope(rearrange(self.q_proj(x), split, h=self.num_heads))
        k = rope(rearrange(self.k_proj(x), split, h=self.num_kv_heads))
        v = rearrange(self.v_proj(x), split, h=self.num_kv_heads)
        groups = self.num_heads // self.num_kv_heads
        if groups > 1:
            k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        attended: Tensor = self.core(q, k, v)
        out: Tensor = self.o_proj(rearrange(attended, "b h t d -> b t (h d)"))
        return out


class SwiGLU(nn.Module):
    """Gated feed-forward of three matrices."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Transform x of shape (..., d_model)."""
        out: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return out


class DecoderBlock(nn.Module):
    """One pre-norm transformer block."""

    def __init__(self, shape: ModelShape, core: nn.Module) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(shape.d_model)
        self.attention = SelfAttention(shape, core)
        self.ffn_norm = RMSNorm(shape.d_model)
        self.ffn = SwiGLU(shape.d_model, shape.d_ff)

    def forward(self, x: Tensor, rope: RoPE) -> Tensor:
        """Transform x of shape (batch, length, d_model)."""
        x = x + self.attention(self.attention_norm(x), rope)
        out: Tensor = x + self.ffn(self.ffn_norm(x))
        return out


class TransformerLM(nn.Module):
    """Token embedding, blocks, final norm, output head.

    With blocks_a_checkpoint only the input of so many blocks is kept for backward, which runs
    them again, within what `around_recompute` makes. Nothing in the model is random, so the state
    of the generators is not kept.
    """

    def __init__(
        self,
        shape: ModelShape,
        attention: Attention,
        context_length: int,
        blocks_a_checkpoint: int | None = None,
    ) -> None:
        super().__init__()
        self.blocks_a_checkpoint = blocks_a_checkpoint
        self.when_again: dict[str, Any] = {}  # options of checkpoint
        self.embedding = nn.Embedding(shape.vocab_size, shape.d_model)
        self.rope = RoPE(shape.head_dim, context_length, shape.rope_theta)
        mask = causal_mask(context_length) if attention == "naive" else None  # one for all blocks
        self.blocks = nn.ModuleList(
            DecoderBlock(shape, build_attention(attention, mask)) for _ in range(shape.num_layers)
        )
        self.final_norm = RMSNorm(shape.d_model)
        self.head = nn.Linear(shape.d_model, shape.vocab_size, bias=False)
        if shape.tie_embeddings:
            self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of shape (batch, length, vocab_size) for tokens of shape (batch, length)."""
        x = self.embedding(tokens)
        if self.blocks_a_checkpoint is None:
            for block in self.blocks:
                x = block(x, self.rope)
        else:
            for first in range(0, len(self.blocks), self.blocks_a_checkpoint):
                last = first + self.blocks_a_checkpoint
                x = checkpoint(
                    self.run_blocks,
                    x,
                    first,
                    last,
                    use_reentrant=False,
                    preserve_rng_state=False,
                    **self.when_again,
                )
        logits: Tensor = self.head(self.final_norm(x))
        return logits

    def around_recompute(self, within: Callable[[], AbstractContextManager[Any]]) -> None:
        """Have blocks that backward runs again run within what `within` makes."""
        self.when_again = {"context_fn": lambda: (nullcontext(), within())}

    def run_blocks(self, x: Tensor, first: int, last: int) -> Tensor:
        """Transform x of shape (batch, length, d_model) by the blocks from first to before last."""
        for block in self.blocks[first:last]:
            x = block(x, self.rope)
        return x


def build_model(
    shape: ModelShape,
    attention: Attention,
    context_length: int,
    device: torch.device,
    blocks_a_checkpoint: int | None = None,
) -> TransformerLM:
    """The model with random weights of a sensible scale, built on its device.

    Weights: normal, std √(2/(fan_in + fan_out)), embedding std 0.02; gains one, biases zero.
    """
    with torch.device(device):
        model = TransformerLM(shape, attention, context_length, blocks_a_checkpoint)
        with torch.no_grad():
            for module in model.modules():
                if isinstance(module, nn.Linear):
                    std = math.sqrt(2 / (module.in_features + module.out_features))
                    module.weight.normal_(0, std)
                    if module.bias is not None:
                        module.bias.zero_()
            model.embedding.weight.normal_(0, 0.02)
    return model
