"""Tensors of one attention alone, by their dimensions."""

from __future__ import annotations

from llmprof.core.predict.closed_form import FP32_BYTES
from llmprof.core.predict.single_tensors import SingleTensor, Term, half_item
from llmprof.core.spec.case import Case

MASK_BYTES = 1  # an element, of a boolean


def attention_tensors(case: Case) -> tuple[SingleTensor, ...]:
    """What the attention probe has in memory at once, at the most; naive attention's scores too.

    At the softmax of a forward the scaled scores, the masked ones and their softmax are alive; of
    a backward the softmax that was saved, its gradient, one product and the scores' gradient.
    """
    length = ("context", case.context_length)
    batch, width = ("batch", case.batch_size), ("d", case.reference.d_model)
    own = half_item(case) if case.cold_cache else FP32_BYTES
    rows = (batch, length, width)
    found = [SingleTensor("Q, K and V", (Term(rows, own, 3),))]
    if not case.cold_cache and half_item(case) != own:
        found.append(SingleTensor("their half-precision copies", (Term(rows, half_item(case), 3),)))
    found.append(SingleTensor("output", (Term(rows, half_item(case)),)))
    if "backward" in case.phases:
        found.append(SingleTensor("gradient of the output", (Term(rows, half_item(case)),)))
        found.append(SingleTensor("gradients of Q, K and V", (Term(rows, own, 3),)))
    if case.attention == "naive" or case.sdpa_backend == "math":
        squares = (batch, length, length)
        count = 4 if "backward" in case.phases else 3
        found.append(SingleTensor("causal mask", (Term((length, length), MASK_BYTES),)))
        found.append(SingleTensor("scores", (Term(squares, half_item(case), count),)))
    return tuple(found)
