"""What a case that ran out of memory held: as its allocator recorded it, else as predicted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from llmprof.core.events import Environment, LiveAllocation, MemoryAtFailure
from llmprof.core.predict.attention_tensors import attention_tensors
from llmprof.core.predict.closed_form import HOPPER, Unpredictable, predict
from llmprof.core.predict.part_sizes import PartSize, part_sizes
from llmprof.core.predict.single_tensors import SingleTensor, Term, single_tensors
from llmprof.core.report.table import Cell, Figure
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState
from llmprof.core.system.units import MIB

PREDICTED = (
    "By prediction, not from the allocator's history: the parts are those alive at the predicted "
    "peak; single tensors are within them, and with one a layer there are as many as layers. What "
    "is read is from the moment of the failure."
)
RECORDED = (
    "From the history of {source}, recorded while the same step was run once more in the same "
    "process and failed in {phase}: what it had given out then, in requested bytes. The largest "
    "blocks are within the categories; a formula stands where a tensor of the model is as large. "
    "What is read is from the moment of the first failure."
)
LOST = "The history was full: what was allocated before its start has no known category."
_SOURCES = {
    "cuda allocator": "CUDA's allocator",
    "cpu tensors": "the CPU's tensors, without what operations hold only inside themselves",
}


@dataclass(frozen=True)
class Account:
    """What was alive, its sum, the largest of it, and where this is known from."""

    rows: tuple[tuple[Cell, ...], ...]
    total: int
    sum_row: tuple[str, str]  # what the sum is called, and of when it is
    notes: tuple[str, ...]


def account_of(state: CaseState, environment: Environment | None) -> Account | None:
    """The account by the allocator's history, else by prediction; None where neither knows."""
    case = state.case
    capability = HOPPER if environment is None else environment.capability or HOPPER
    if state.at_failure is not None:
        return _recorded(state.at_failure, case, capability)
    if case.probe == "attention":
        tensors = attention_tensors(case)
        return _predicted((), tensors, sum(each.size for each in tensors), "its largest phase")
    try:
        prediction = predict(case, capability)
    except Unpredictable:
        return None
    formulas = {part.name: part for part in part_sizes(case, capability)}
    parts = (
        (name, "alive at the peak", _formula(name, size, formulas), mib_cell(size), "predicted")
        for name, size in _falling(prediction.breakdown)
    )
    largest = sorted(single_tensors(case, capability), key=lambda each: -each.size)
    return _predicted(parts, largest, prediction.requested_bytes, prediction.peak_phase)


def mib_cell(size: int) -> Cell:
    """Bytes as the tables of accounts show them."""
    return Figure(size / MIB, 0.1)


def _predicted(
    parts: Iterable[tuple[Cell, ...]], tensors: Iterable[SingleTensor], total: int, phase: str
) -> Account:
    singles = (
        (each.name, each.words, each.numbers, mib_cell(each.size), "formula")
        for each in tensors
        if each.size
    )
    return Account((*parts, *singles), total, ("sum at the peak", f"of {phase}"), (PREDICTED,))


def _formula(name: str, size: int, parts: dict[str, PartSize]) -> str:
    """How a part comes about, where as much of it is alive as there ever is."""
    part = parts.get(name)
    return part.formula if part is not None and part.size == size else ""


def _falling(sizes: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(sizes.items(), key=lambda each: -each[1])


def _recorded(found: MemoryAtFailure, case: Case, capability: tuple[int, int]) -> Account:
    categories = (
        (name, "alive when it failed", "", mib_cell(size), "recorded")
        for name, size in _falling(found.live)
    )
    terms = _terms_by_size(case, capability)
    blocks = (_block_row(each, terms.get(each.size)) for each in found.largest)
    said = RECORDED.format(source=_SOURCES[found.source], phase=found.phase)
    return Account(
        (*categories, *blocks),
        sum(found.live.values()),
        ("sum when it failed", f"in {found.phase}"),
        (said, LOST) if found.overflow else (said,),
    )


def _block_row(block: LiveAllocation, term: Term | None) -> tuple[Cell, ...]:
    """Blocks of one size from one place, with their formula where it is that of a tensor."""
    name = block.what if block.count == 1 else f"{block.what} ({block.count:,} blocks)"
    size = mib_cell(block.size * block.count)
    if term is None:
        made = f"{block.category}, of {block.phase}" if block.phase else block.category
        return (name, made, f"{block.count:,} × {block.size:,} bytes", size, "recorded")
    whole = replace(term, count=block.count)
    return (name, whole.words, whole.numbers, size, "recorded")


def _terms_by_size(case: Case, capability: tuple[int, int]) -> dict[int, Term]:
    """Tensors that people ask about by their bytes, the first named where several are alike."""
    found: dict[int, Term] = {}
    for tensor in single_tensors(case, capability):
        for term in tensor.terms:
            alone = replace(term, count=1)
            found.setdefault(alone.size, alone)
    return found
