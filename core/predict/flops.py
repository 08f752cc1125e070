"""Floating-point operations of the reference model, and the fewest bytes a case can need.

A matrix product of m x k by k x n counts 2mnk operations. Norms, softmax, activations, masks
and the embedding lookup are left out, as is usual. Attention is counted in full, as naive
attention computes it; "causal" counts the lower half that is used, which is what flash kernels
compute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmprof.core.spec.case import Case, Phase
from llmprof.core.spec.shape import ModelShape

AttentionConvention = Literal["full", "causal"]

BACKWARD_FACTOR = 2  # two products of the same size for each forward product
BYTES_PER_PARAMETER = {"forward": 4, "forward-grad": 4, "forward-backward": 8, "train": 16}
FP32_BYTES = 4


@dataclass(frozen=True)
class Flops:
    """Forward operations of one step by the products that cause them."""

    linear: int  # projections and SwiGLU of all blocks
    attention: int  # scores and their product with V, of all blocks
    head: int  # output logits

    @property
    def total(self) -> int:
        """All forward operations of one step."""
        return self.linear + self.attention + self.head


def matmul_parameters(model: ModelShape) -> int:
    """Weights that enter a matrix product: all but norms, biases and the input embedding."""
    d = model.d_model
    block = 2 * d * d + 2 * d * model.kv_dim + 3 * d * model.d_ff
    return model.num_layers * block + model.vocab_size * d


def forward_breakdown(case: Case, attention: AttentionConvention = "full") -> Flops:
    """Forward operations of one step of the case, whatever its mode.

    The attention probe has one attention without heads or projections: 4·B·L²·d.
    """
    model, tokens = case.reference, case.tokens
    scores = 4 * tokens * case.context_length * model.d_model
    if attention == "causal":
        scores = 4 * case.batch_size * model.d_model * _triangle(case.context_length)
    if case.probe == "attention":
        return Flops(0, scores, 0)
    head = 2 * tokens * model.vocab_size * model.d_model
    linear = 2 * tokens * matmul_parameters(model) - head
    return Flops(linear, model.num_layers * scores, head)


def _triangle(length: int) -> int:
    return length * (length + 1) // 2


def forward_flops(case: Case, attention: AttentionConvention = "full") -> int:
    """Operations of one forward pass: 2 a token and matmul weight, plus 4·L·d a token and layer."""
    return forward_breakdown(case, attention).total


def backward_flops(case: Case, attention: AttentionConvention = "full") -> int:
    """Operations of one backward pass: twice the forward, without recomputation.

    Flash kernels recompute the scores (2.5 times their forward); that is work of the kernel and
    not of the model, so it is not counted here.
    """
    return BACKWARD_FACTOR * forward_flops(case, attention)


def phase_flops(case: Case, phase: Phase, attention: AttentionConvention = "full") -> int | None:
    """Operations of a phase that is dominated by matrix products, None for the others."""
    if phase not in case.phases:
        return None
    match phase:
        case "forward":
            return forward_flops(case, attention)
        case "backward":
            return backward_flops(case, attention)
        case _:
            return None


def recomputed_flops(case: Case, attention: AttentionConvention = "full") -> int:
    """Operations of a step's backward that are a checkpoint's forward once more.

    That of all blocks, but for the last product of each checkpoint: the second run ends there,
    since nothing after it is saved.
    """
    blocks, model = case.blocks_a_checkpoint, case.shape
    if model is None or blocks is None or "backward" not in case.phases:
        return 0
    forward = forward_breakdown(case, attention)
    spared = -(-model.num_layers // blocks) * 2 * case.tokens * model.d_ff * model.d_model
    return forward.linear + forward.attention - spared


def step_flops(case: Case, attention: AttentionConvention = "full") -> int:
    """Operations of one step of the case's mode; the optimizer's are left out."""
    return sum(phase_flops(case, phase, attention) or 0 for phase in case.phases)


def mfu(flops: int, seconds: float, peak_tflops: float) -> float | None:
    """Model FLOP utilisation: a fraction of the dense peak, or None where there is no time.

    Above 1 the time or the peak is wrong; the caller says so rather than hiding it.
    """
    if seconds <= 0 or peak_tflops <= 0:
        return None
    return flops / seconds / (peak_tflops * 1e12)


def lower_bound_bytes(case: Case) -> int:
    """Bytes without which the case cannot even start: fp32 state of the parameters.

    4 bytes a parameter for the weights, 4 more for gradients, 8 more for AdamW's two moments;
    the attention probe instead needs Q, K, V and, with a backward, their gradients. Of an own
    model nothing is known: 0.
    """
    if case.probe == "attention":
        tensors = 3 if case.mode in ("forward", "forward-grad") else 6
        return tensors * FP32_BYTES * case.tokens * case.reference.d_model
    return 0 if case.shape is None else BYTES_PER_PARAMETER[case.mode] * case.shape.parameters
