"""The stages of one layer's attention: their names, FLOPs and least traffic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from llmprof.core.events.kernel_rows import LensRow
from llmprof.core.spec.case import Case

Direction = Literal["forward", "backward"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
SCORES, MASK, SOFTMAX, VALUES, FUSED = "scores", "masked", "softmax", "values", "fused"
QK, SCALE_MASK, SOFT, AV, WHOLE = "QKᵀ", "scale + mask", "softmax", "AV", "fused attention"
STAGES = {SCORES: QK, MASK: SCALE_MASK, SOFTMAX: SOFT, VALUES: AV, FUSED: WHOLE}
ATTENTION_MODULE = "blocks.*.attention.core"  # whose kernels the stages are, in every layer
SOFTMAX_FLOPS = 5  # an element: maximum, subtraction, exponential, sum, division
SOFTMAX_BACKWARD_FLOPS = 4  # an element: product, sum, subtraction, product


def stage_work(case: Case, stage: str, direction: Direction) -> tuple[float, float]:
    """FLOPs and least bytes of one layer's stage: operands read once, results written once.

    Matrix products take 2mnk FLOPs, and twice that backward. Under autocast tensors have two
    bytes an element except the softmax's result, which is fp32. A fused kernel is counted as
    causal: half the square, 2.5 times the FLOPs backward (it computes the scores again).
    """
    model, e = case.reference, 2 if case.precision in ("bf16", "fp16") else 4
    x = case.batch_size * model.num_heads * case.context_length * model.head_dim
    s = case.batch_size * model.num_heads * case.context_length**2
    product = 2.0 * s * model.head_dim
    back = direction == "backward"
    match stage:
        case "QKᵀ" | "AV":
            return (2 * product, (2 * s + 4 * x) * e) if back else (product, (s + 2 * x) * e)
        case "scale + mask":
            return float(s), 4 * s * e + case.context_length**2
        case "softmax":
            if back:
                return float(SOFTMAX_BACKWARD_FLOPS * s), 3 * s * 4
            return float(SOFTMAX_FLOPS * s), s * (e + 4)
        case "fused attention":
            return (2.5 * product, 8 * x * e) if back else (product, 4 * x * e)
    raise ValueError(f"no such stage: {stage}")


def softmax_ratio(rows: Iterable[LensRow], direction: Direction) -> tuple[float, float] | None:
    """Softmax over matrix products: (time ratio, FLOP ratio); None unless both were seen."""
    mine = {row.stage: row for row in rows if row.direction == direction}
    if not {QK, SOFT, AV} <= set(mine):
        return None
    products = mine[QK].device_us + mine[AV].device_us
    flops = mine[QK].flops + mine[AV].flops
    if products <= 0 or flops <= 0:
        return None
    return mine[SOFT].device_us / products, mine[SOFT].flops / flops
