"""The reference model's step written on a tape: the same ops, locals and lifetimes as the model.

Sizes come from the ops; what stays alive comes from who refers to it, in Python and in autograd,
so this file follows the model line by line, without data.
"""

from __future__ import annotations

from functools import partial

from llmprof.core.predict import fused_attention as kernels
from llmprof.core.predict.tape import Tape, Tensor
from llmprof.core.predict.taped_ops import FP32_WIDTH, Ops
from llmprof.core.spec.case import Case

SORTED_TOKENS = 3072  # above, the embedding's backward sorts its indices (EmbeddingBackwardKernel)


class Reference(Ops):
    """The reference model for one case; `layers` may be fewer than the model has."""

    def __init__(self, case: Case, layers: int, capability: tuple[int, int], tape: Tape) -> None:
        super().__init__(case, tape, capability)
        self.layers = layers
        model = case.reference
        self.scores = case.batch_size * model.num_heads * case.context_length**2
        self.embedding_weight = self.weight(model.vocab_size * model.d_model)
        self.head_weight = (
            self.embedding_weight
            if model.tie_embeddings
            else self.weight(model.vocab_size * model.d_model)
        )

    def rope(self, x: Tensor) -> Tensor:
        """RoPE.forward of (batch, heads, length, head_dim)."""
        tape, item, numel = self.tape, x.item, x.numel
        half = numel // 2
        table = self.case.context_length * self.case.reference.head_dim // 2
        cos = tape.new(table, item) if self.half else tape.new(0, item)
        sin = tape.new(table, item) if self.half else tape.new(0, item)

        def part(y: Tensor, by: Tensor) -> Tensor:
            return tape.record(
                tape.new(half, item), (y,), (by,), lambda g, s: (tape.new(half, item),)
            )

        def every_second() -> Tensor:
            view = tape.new(0, item)
            return tape.record(view, (x,), (), lambda g, s: (tape.new(numel, item),))

        even, odd = every_second(), every_second()
        left, right = part(even, cos), part(odd, sin)
        first = tape.record(
            tape.new(half, item), (left, right), (), lambda g, s: (g, tape.new(half, item))
        )
        del left, right
        left, right = part(even, sin), part(odd, cos)
        second = tape.record(tape.new(half, item), (left, right), (), lambda g, s: (g, g))
        del left, right
        turned = tape.new(numel, item)
        return tape.record(turned, (first, second), (), lambda g, s: (g, g))

    def split(self, x: Tensor, heads: int, strided: bool = False) -> Tensor:
        """(b, t, h·d) seen as (b, h, t, d): its gradient is copied unless it is strided so."""
        tape, numel, item = self.tape, x.numel, x.item
        if strided or self._turns_freely(heads):
            return tape.record(x, (x,), (), lambda g, s: (g,))
        return tape.record(x, (x,), (), lambda g, s: (tape.new(numel, item),))

    def _turns_freely(self, heads: int) -> bool:
        """Whether (t, h) and (h, t) are the same order in memory."""
        return heads == 1 or self.case.context_length == 1

    def naive(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """NaiveAttention.forward."""
        scores = self._scores(q, k)
        masked = self.pointwise(scores)
        return self._values(self.softmax(masked), v)

    def _scores(self, q: Tensor, k: Tensor) -> Tensor:
        tape, item, numel = self.tape, q.item, q.numel

        def backward(g: Tensor, s: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            gk = tape.new(numel, item)
            return tape.new(numel, item), gk

        return self.pointwise(tape.record(tape.new(self.scores, item), (q, k), (q, k), backward))

    def _values(self, weights: Tensor, v: Tensor) -> Tensor:
        tape, item, numel, scores = self.tape, v.item, v.numel, self.scores
        model = self.case.reference
        half = self.cast(weights, item)
        # bmm takes one batch dimension: batch and heads merge without a copy in these cases
        merges = self.case.batch_size == 1 or self._turns_freely(model.num_heads)
        if not merges and model.num_kv_heads == model.num_heads:
            v = tape.record(tape.new(numel, item), (v,), (), lambda g, s: (g,))

        def backward(g: Tensor, s: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            gv = tape.new(numel, item)
            return tape.new(scores, item), gv

        out = tape.record(tape.new(numel, item), (half, v), (half, v), backward)
        if merges:
            return out
        return tape.record(out, (out,), (), lambda g, s: (tape.new(numel, item),))

    def fused(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """FusedAttention.forward."""
        tape, item, numel, case = self.tape, q.item, q.numel, self.case
        at = kernels.Heads(
            case.batch_size,
            case.reference.num_heads,
            case.context_length,
            case.reference.head_dim,
            item,
        )
        kernel = self.kernel
        out = tape.new(numel, item)
        kept = tuple(
            tape.new(size, 1) for size in kernels.saved_statistics(kernel, at, self.tape.grad)
        )
        scratch = tape.new(kernels.forward_scratch(kernel, at), 1)
        del scratch

        def backward(g: Tensor, s: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            gq, gk, gv = tape.new(numel, item), tape.new(numel, item), tape.new(numel, item)
            scratch = tape.new(kernels.backward_scratch(kernel, at), 1)
            del scratch
            return gq, gk, gv

        return tape.record(out, (q, k, v), (q, k, v, out, *kept), backward)

    @property
    def kernel(self) -> kernels.Kernel:
        """The fused attention kernel of this case."""
        return kernels.choose(self.item, self.case.reference.head_dim, self.capability)

    def merge(self, x: Tensor) -> Tensor:
        """(b, h, t, d) to (b, t, h·d): a copy unless the kernel wrote it in that order."""
        if self.case.attention == "sdpa" and self.kernel != "cudnn":
            return x
        if self._turns_freely(self.case.reference.num_heads):
            return x
        tape = self.tape
        return tape.record(tape.new(x.numel, x.item), (x,), (), lambda g, s: (g,))

    def self_attention(self, x: Tensor) -> Tensor:
        """SelfAttention.forward."""
        model, d, kv = self.case.reference, self.case.reference.d_model, self.case.reference.kv_dim
        groups = model.num_heads // model.num_kv_heads

        def bias(n: int) -> Tensor | None:
            return self.weight(n) if model.qkv_bias else None

        heads, kv_heads = model.num_heads, model.num_kv_heads
        q = self.rope(self.split(self.linear(x, self.weight(d * d), d, d, bias(d)), heads))
        k = self.rope(self.split(self.linear(x, self.weight(d * kv), d, kv, bias(kv)), kv_heads))
        strided = self.case.attention == "sdpa" and groups == 1
        v = self.split(self.linear(x, self.weight(d * kv), d, kv, bias(kv)), kv_heads, strided)
        if groups > 1:
            k, v = self.repeat(k, groups), self.repeat(v, groups)
        core = self.naive if self.case.attention == "naive" else self.fused
        merged = self.merge(core(q, k, v))
        return self.linear(merged, self.weight(d * d), d, d)

    def swiglu(self, x: Tensor) -> Tensor:
        """SwiGLU.forward."""
        d, ff = self.case.reference.d_model, self.case.reference.d_ff
        gated = self.silu(self.linear(x, self.weight(d * ff), d, ff))
        up = self.linear(x, self.weight(d * ff), d, ff)
        product = self.mul(gated, up)
        del gated, up
        return self.linear(product, self.weight(d * ff), ff, d)

    def block(self, x: Tensor) -> Tensor:
        """Block.forward."""
        d = self.case.reference.d_model
        x = self.add(x, self.self_attention(self.rms_norm(x, self.weight(d))))
        return self.add(x, self.swiglu(self.rms_norm(x, self.weight(d))))

    def forward(self) -> Tensor:
        """TransformerLM.forward: the logits."""
        tape, model = self.tape, self.case.reference
        tape.segment("forward", -1)
        x = self._embed()
        every = self.case.blocks_a_checkpoint
        if every is None:
            for layer in range(self.layers):
                tape.segment("forward", layer)
                x = self.block(x)
        else:
            for first in range(0, self.layers, every):
                x = tape.checkpointed(partial(self.run_again, first, first + every), x)
        tape.segment("forward", self.layers)
        normed = self.rms_norm(x, self.weight(model.d_model))
        return self.linear(normed, self.head_weight, model.d_model, model.vocab_size)

    def run_blocks(self, x: Tensor, first: int, last: int) -> Tensor:
        """TransformerLM.run_blocks."""
        for layer in range(first, min(last, self.layers)):
            if self.tape.running is None:
                self.tape.segment("forward", layer)
            x = self.block(x)
        return x

    def run_again(self, first: int, last: int, x: Tensor) -> Tensor:
        """Blocks within a checkpoint; autocast ends where they are run for the second time."""
        try:
            return self.run_blocks(x, first, last)
        finally:
            if self.tape.running is not None:
                self.cache.clear()

    def _embed(self) -> Tensor:
        tape, model, tokens = self.tape, self.case.reference, self.tokens
        sorts = tokens > SORTED_TOKENS

        def backward(g: Tensor, s: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            out = tape.new(model.vocab_size * model.d_model, FP32_WIDTH)
            scratch = tape.new(4 * tokens if sorts else 0, 8)
            del scratch
            return (out,)

        out = tape.new(tokens * model.d_model, FP32_WIDTH)
        return tape.record(out, (self.embedding_weight,), (), backward)

    def loss(self, logits: Tensor) -> Tensor:
        """F.cross_entropy of the flattened logits."""
        tape, numel, item = self.tape, logits.numel, logits.item
        out = tape.new(numel, item)
        logs = tape.record(out, (logits,), (out,), lambda g, s: (tape.new(numel, item),))
        del out
        logs = self.cast(logs, FP32_WIDTH)
        total = tape.new(1, FP32_WIDTH)
        return tape.record(
            tape.new(1, FP32_WIDTH),
            (logs,),
            (logs, total),
            lambda g, s: (tape.new(numel, FP32_WIDTH),),
        )
