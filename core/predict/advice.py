"""What to change in a case that does not fit, each change as a command that can be run."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from llmprof.core.catalog.models import load_models
from llmprof.core.predict.closed_form import HOPPER, Unpredictable, predict
from llmprof.core.predict.fits import needed_bytes, unsupported
from llmprof.core.spec.axes import GRID, MODES, Precision
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape, SpecError

AdvisedChange = Literal[
    "batch", "context", "attention", "precision", "optimizer", "mode", "together"
]
_ALWAYS = ("context_length", "batch_size", "mode", "precision")
_STEP = 64  # contexts are advised in multiples of this, as kernels like them
_DIMENSIONS = ("vocab_size", "d_model", "d_ff", "num_layers", "num_heads", "kv_heads")


@dataclass(frozen=True, slots=True)
class Advice:
    """One change that makes a case fit: what it is, the case, its need and its command."""

    change: AdvisedChange
    text: str
    case: Case
    needed_bytes: int
    command: str


def advise(
    case: Case, budget_bytes: int, capability: tuple[int, int] = HOPPER
) -> tuple[Advice, ...]:
    """Changes of one thing each after which the case fits in `budget_bytes` of a card.

    The budget includes the CUDA context. Only what fits for certain is advised: the largest
    batch and context, then fused attention, precisions, optimizers and narrower modes. When no
    single change keeps the mode, all that save memory are taken together. Empty when nothing
    fits, or when the case is not one that the closed form knows.
    """
    try:
        predict(case, capability)
    except Unpredictable:
        return ()
    return tuple(
        Advice(change, text, other, _need(other, capability), command_of(other))
        for change, text, other in _changes(case, budget_bytes, capability)
    )


def command_of(case: Case) -> str:
    """The command line that measures a case with the probe that it has."""
    experiment = ["memory"] if case.probe == "memory" else []
    words = ["llmprof", "run", *experiment, *_model_options(case.model)]
    for axis in GRID:
        value = axis.of(case)
        if axis.changes == "steps" or (axis.field == "optimizer" and case.mode != "train"):
            continue
        if value != axis.neutral or axis.field in _ALWAYS:
            words += [axis.option, axis.text(value)]
    return shlex.join(words)


def _model_options(model: ModelShape) -> list[str]:
    try:
        known = load_models()
    except SpecError:
        known = {}
    base = known.get(model.name) or known.get(model.name.partition("+")[0])
    if base is None:
        base = next(iter(known.values()), None)
    words = ["--model-size", base.name if base else model.name]
    for field in _DIMENSIONS:
        value = getattr(model, field)
        if base is None or value != getattr(base, field):
            words += [f"--{field.replace('_', '-')}", str(value)]
    return words


def _changes(
    case: Case, budget: int, capability: tuple[int, int]
) -> Iterator[tuple[AdvisedChange, str, Case]]:
    def fits(other: Case) -> bool:
        return _need(other, capability) <= budget

    batch = _largest(1, case.batch_size - 1, lambda n: fits(_with(case, batch_size=n)))
    if batch:
        yield "batch", f"batch {batch} instead of {case.batch_size}", _with(case, batch_size=batch)
    steps = (case.context_length - 1) // _STEP
    length = _largest(1, steps, lambda n: fits(_with(case, context_length=n * _STEP)))
    if length:
        other = _with(case, context_length=length * _STEP)
        yield "context", f"context {length * _STEP} instead of {case.context_length}", other
    kept = bool(batch or length)
    for change, text, other in _switches(case, capability):
        if fits(other):
            kept = kept or change != "mode"
            yield change, text, other
    if not kept:
        yield from _together(case, fits)


def _together(
    case: Case, fits: Callable[[Case], bool]
) -> Iterator[tuple[AdvisedChange, str, Case]]:
    lean = _with(case, attention="sdpa", batch_size=1)
    if case.mode == "train":
        lean = _with(lean, optimizer="fused")
    steps = max(1, case.context_length // _STEP)
    length = _largest(1, steps, lambda n: fits(_with(lean, context_length=n * _STEP)))
    if length:
        lean = _with(lean, context_length=min(case.context_length, length * _STEP))
        fused = " and the fused optimizer" if case.mode == "train" else ""
        yield "together", f"batch 1, context {lean.context_length}, fused attention{fused}", lean


def _switches(case: Case, capability: tuple[int, int]) -> Iterator[tuple[AdvisedChange, str, Case]]:
    if case.attention == "naive":
        yield "attention", "fused attention", _with(case, attention="sdpa")
    if case.precision in ("fp32", "tf32"):
        halves: tuple[Precision, ...] = ("bf16", "fp16")
        for half in (each for each in halves if unsupported(each, capability) is None):
            yield "precision", f"{half} autocast", _with(case, precision=half)
    if case.mode == "train" and case.optimizer == "foreach":
        yield "optimizer", "the fused optimizer", _with(case, optimizer="fused")
        yield "optimizer", "the optimizer as a loop", _with(case, optimizer="loop")
    for mode in reversed(MODES[: MODES.index(case.mode)]):
        yield "mode", f"mode {mode}", _with(case, mode=mode)


def _with(case: Case, **changes: object) -> Case:
    return msgspec.structs.replace(case, **changes)


def _need(case: Case, capability: tuple[int, int]) -> int:
    return needed_bytes(predict(case, capability))[1]


def _largest(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """The largest n in low..high that holds, when smaller ones do too; None if not even low."""
    if high < low or not holds(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low
