"""A model's shape: its dimensions, and what follows from them."""

from __future__ import annotations

import math

import msgspec

LARGEST = 10_000_000  # of any dimension or number of steps
MOST_SEED = 2**63 - 1  # of torch.manual_seed


class SpecError(ValueError):
    """A specification that cannot be measured; its text is one line for the user."""


class ModelShape(msgspec.Struct, frozen=True, kw_only=True):
    """A decoder-only transformer: pre-norm RMSNorm, RoPE attention, SwiGLU, no biases.

    Raises SpecError when the dimensions do not fit each other.
    """

    name: str
    d_model: int
    d_ff: int
    num_layers: int
    num_heads: int
    kv_heads: int = 0  # 0: as many as num_heads
    vocab_size: int = 10_000
    tie_embeddings: bool = False
    qkv_bias: bool = False
    rope_theta: float = 10_000.0
    edition: str = ""

    def __post_init__(self) -> None:
        for field in ("d_model", "d_ff", "num_layers", "num_heads", "vocab_size"):
            if not 1 <= getattr(self, field) <= LARGEST:
                raise SpecError(f"{self.name}: {field} must be between 1 and {LARGEST:,}")
        if not 0 < self.rope_theta < math.inf:
            raise SpecError(f"{self.name}: rope_theta must be a positive number")
        if self.d_model % self.num_heads:
            raise SpecError(
                f"{self.name}: num_heads {self.num_heads} does not divide d_model {self.d_model}"
            )
        if self.head_dim % 2:
            raise SpecError(f"{self.name}: head size {self.head_dim} is odd, which RoPE cannot use")
        if self.kv_heads < 0 or self.num_heads % self.num_kv_heads:
            raise SpecError(
                f"{self.name}: kv_heads {self.kv_heads} does not divide num_heads {self.num_heads}"
            )

    @property
    def head_dim(self) -> int:
        """Size of one attention head."""
        return self.d_model // self.num_heads

    @property
    def num_kv_heads(self) -> int:
        """Heads of K and V: num_heads unless the model groups its queries."""
        return self.kv_heads or self.num_heads

    @property
    def kv_dim(self) -> int:
        """Width of K and of V."""
        return self.num_kv_heads * self.head_dim

    @property
    def parameters(self) -> int:
        """Counted parameters: V·d (twice if untied) + L·(attention + 3·d·d_ff + 2d) + d."""
        d, kv = self.d_model, self.kv_dim
        attention = 2 * d * d + 2 * d * kv + (d + 2 * kv if self.qkv_bias else 0)
        block = attention + 3 * d * self.d_ff + 2 * d
        embeddings = self.vocab_size * d * (1 if self.tie_embeddings else 2)
        return embeddings + self.num_layers * block + d

    @property
    def parameter_tensors(self) -> int:
        """Number of parameter tensors: 9L + 3 for the reference model."""
        per_block = 12 if self.qkv_bias else 9
        return per_block * self.num_layers + (2 if self.tie_embeddings else 3)


def attention_shape(width: int) -> ModelShape:
    """What stands for one attention without heads, projections or a model around it."""
    return ModelShape(
        name=f"d={width}", d_model=width, d_ff=1, num_layers=1, num_heads=1, vocab_size=1
    )
