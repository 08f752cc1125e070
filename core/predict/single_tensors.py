"""Single tensors of a step by their dimensions: activations, scores, logits, what a block saves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import count

import msgspec

from llmprof.core.predict.closed_form import FP32_BYTES, HOPPER
from llmprof.core.predict.taped_parts import saved_by_a_block
from llmprof.core.spec.axes import HALVES
from llmprof.core.spec.case import Case

HALF_BYTES = 2
_Dimensions = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Term:
    """Some tensors of one shape: how many, their dimensions by name, bytes an element."""

    dimensions: _Dimensions
    item: int
    count: int = 1

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        total = self.count * self.item
        for _, extent in self.dimensions:
            total *= extent
        return total

    @property
    def words(self) -> str:
        """10 tensors × batch × context × d_model × 4 bytes."""
        names = [name for name, _ in self.dimensions]
        product = " × ".join([*names, f"{self.item} bytes"])
        return product if self.count == 1 else f"{self.count} tensors × {product}"

    @property
    def numbers(self) -> str:
        """10 × 4 × 512 × 768 × 4."""
        extents = [extent for _, extent in self.dimensions]
        counted = [self.count] if self.count > 1 else []
        return " × ".join(map(str, [*counted, *extents, self.item]))


@dataclass(frozen=True, slots=True)
class SingleTensor:
    """What is asked about, as a sum of terms; none where it is never in memory, with the reason."""

    name: str
    terms: tuple[Term, ...]
    reason: str = ""

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(term.size for term in self.terms)

    @property
    def words(self) -> str:
        """The formula with the dimensions' names."""
        return " + ".join(term.words for term in self.terms) or self.reason

    @property
    def numbers(self) -> str:
        """The formula with the numbers put in."""
        return " + ".join(term.numbers for term in self.terms)


def half_item(case: Case) -> int:
    """Bytes an element of what matrix products take and give."""
    return HALF_BYTES if case.precision in HALVES else FP32_BYTES


def single_tensors(case: Case, capability: tuple[int, int] = HOPPER) -> tuple[SingleTensor, ...]:
    """The tensors that people ask about first, as far as a step of the case has them.

    None of an own model, whose dimensions are unknown. Of micro-batches, those of one. What a
    checkpointed block saves is there only while it is run again in the backward.
    """
    if case.shape is None:
        return ()
    case = case.micro_batch
    stream = Term((*_tokens(case), ("d_model", case.reference.d_model)), FP32_BYTES)
    found = [
        SingleTensor("residual stream, one activation", (stream,)),
        *_attention(case),
        logits(case),
    ]
    if case.mode != "forward":
        found.append(SingleTensor(_saved_name(case), _saved(case, capability)))
    return tuple(found)


def logits(case: Case) -> SingleTensor:
    """The output of the model."""
    vocabulary = ("vocabulary", case.reference.vocab_size)
    return SingleTensor("logits", (Term((*_tokens(case), vocabulary), half_item(case)),))


def _tokens(case: Case) -> _Dimensions:
    return ("batch", case.batch_size), ("context", case.context_length)


def _scores(case: Case) -> _Dimensions:
    length = ("context", case.context_length)
    return ("batch", case.batch_size), ("heads", case.reference.num_heads), length, length


def _attention(case: Case) -> tuple[SingleTensor, ...]:
    name = "attention scores of one layer"
    if case.attention == "sdpa":
        return (SingleTensor(name, (), "never in memory as a whole: SDPA takes them in tiles"),)
    return (
        SingleTensor(name, (Term(_scores(case), half_item(case)),)),
        SingleTensor("softmax of the scores", (Term(_scores(case), FP32_BYTES),)),
    )


def _saved_name(case: Case) -> str:
    again = case.blocks_a_checkpoint is not None
    return "saved by one block when it is run again" if again else "saved for backward by one block"


def _saved(case: Case, capability: tuple[int, int]) -> tuple[Term, ...]:
    """Tensors of one shape are one term, the largest sum first."""
    taped = _told_apart(msgspec.structs.replace(case, checkpoint=None))
    found = Counter(_as_term(case, taped, *each) for each in saved_by_a_block(taped, capability))
    terms = (Term(term.dimensions, term.item, times) for term, times in found.items())
    return tuple(sorted(terms, key=lambda term: -term.size))


def _told_apart(case: Case) -> Case:
    """The case with the next context at which scores have a size of their own.

    Of the usual models heads × context is d_model or d_ff at a context of 64 or 256.
    """
    model = case.reference
    if case.attention == "sdpa" or case.context_length == 1:
        return case
    alike = {width // model.num_heads for width in (model.d_model, model.d_ff, model.kv_dim)}
    length = next(each for each in count(case.context_length) if each not in alike)
    return msgspec.structs.replace(case, context_length=length)


def _as_term(case: Case, taped: Case, numel: int, item: int) -> Term:
    """A taped tensor by the dimensions that it has; statistics of fused kernels are in bytes."""
    if item == 1 and numel % FP32_BYTES == 0:
        numel, item = numel // FP32_BYTES, FP32_BYTES
    for dimensions, shape in zip(_shapes(case, item), _shapes(taped, item), strict=True):
        if Term(shape, item).size == numel * item:
            return Term(dimensions, item)
    return Term(((f"{numel} elements", numel),), item)


def _shapes(case: Case, item: int) -> tuple[_Dimensions, ...]:
    """The shapes that a block saves with so many bytes an element."""
    model, tokens = case.reference, _tokens(case)
    wide = (
        (*tokens, ("d_model", model.d_model)),
        (*tokens, ("d_ff", model.d_ff)),
        (*tokens, ("width of K", model.kv_dim)),
    )
    scores = () if case.attention == "sdpa" else (_scores(case),)
    if item == FP32_BYTES:  # statistics of norms and of fused attention
        return (*wide, *scores, tokens, _scores(case)[:3])
    tables = ("context", case.context_length), ("half a head", model.head_dim // 2)
    return (*wide, *scores, tables)
