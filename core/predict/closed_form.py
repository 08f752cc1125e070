"""The closed form: bytes that a case of the reference model needs, without torch and at once.

Requested bytes are what the ops ask for; they do not depend on the card but for the fused
attention kernel and the cuBLAS workspace. Allocated bytes add what CUDA's caching allocator
gives beyond that: requests rounded to 512 bytes, and the ends of large blocks too small to split.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmprof.core.predict.allocator import BLOCK_BYTES, SMALL
from llmprof.core.predict.byte_levels import (
    CATEGORIES,
    GRADIENTS,
    INPUTS,
    OPTIMIZER,
    PARAMETERS,
    TEMPORARIES,
    WORKSPACE,
    ZERO,
    ByteLevel,
    allocated_band,
)
from llmprof.core.predict.fused_attention import choose
from llmprof.core.predict.taped_depth import PhaseLevel, step_levels
from llmprof.core.spec.axes import HALVES
from llmprof.core.spec.case import Case, Phase
from llmprof.core.spec.own_function import is_function
from llmprof.core.spec.shape import ModelShape
from llmprof.core.system.units import MIB

HOPPER = (9, 0)
FP32_BYTES = 4
INDEX = 8  # token ids are int64


class Unpredictable(ValueError):
    """A case that the closed form does not know; its text says what to do instead."""


@dataclass(frozen=True, slots=True)
class PhaseBytes:
    """Requested bytes at the peak of a phase and at its end."""

    phase: Phase
    peak: int
    end: int


@dataclass(frozen=True, slots=True)
class MemoryPrediction:
    """What a case needs. `breakdown` is by category at the peak and sums to requested_bytes."""

    requested_bytes: int
    allocated_low: int
    allocated_high: int
    peak_phase: Phase
    phases: tuple[PhaseBytes, ...]
    breakdown: dict[str, int]
    kernel: str | None  # the fused attention kernel assumed
    upper_bound: bool = False  # of a compiled model, which mostly needs less than the eager one


def predict(case: Case, capability: tuple[int, int] = HOPPER) -> MemoryPrediction:
    """Predict a case on a card of a compute capability.

    Raises Unpredictable for a probe that is not a step of the reference model.
    """
    if is_function(case.attention):
        raise Unpredictable(
            "the memory of an attention of your own is not predicted: measure it with `llmprof run`"
        )
    if case.shape is None:
        raise Unpredictable(
            "there is no closed form for a model of your own: `llmprof predict` traces it"
        )
    if case.probe == "attention":
        raise Unpredictable(
            "the memory of one attention alone is not predicted, only that of whole models: "
            "measure it with `llmprof run attention`, where what does not fit is a row"
        )
    base = resident(case, capability)
    held = base
    if case.accumulate > 1 and "backward" in case.phases:
        held = base.plus(gradients(case.reference))
    phases = [
        replace(level, peak=level.peak.plus(held), end=level.end.plus(held))
        for level in step_levels(case, capability)
    ]
    before = phases[-1].end
    if case.mode == "train":
        phases.append(_optimizer(case, before))
    if "zero_grad" in case.phases:
        phases.append(PhaseLevel("zero_grad", before, base))
    top = max(phases, key=lambda level: level.peak.requested)
    low, high = allocated_band(case, top.peak)
    return MemoryPrediction(
        requested_bytes=top.peak.requested,
        allocated_low=low,
        allocated_high=high,
        peak_phase=top.phase,
        phases=tuple(
            PhaseBytes(each.phase, each.peak.requested, each.end.requested) for each in phases
        ),
        breakdown={
            name: size for name, size in zip(CATEGORIES, top.peak.live, strict=True) if size
        },
        kernel=_kernel(case, capability),
        upper_bound=case.compile is not None,
    )


def without_workspaces(
    found: MemoryPrediction, case: Case, capability: tuple[int, int] = HOPPER
) -> MemoryPrediction:
    """The prediction for a CPU, which has no cuBLAS; the rest is as on a card."""
    held = sum(workspaces(case, capability))
    return replace(
        found,
        requested_bytes=found.requested_bytes - held,
        allocated_low=found.allocated_low - held,
        allocated_high=found.allocated_high - held,
        phases=tuple(
            PhaseBytes(each.phase, each.peak - held, each.end - held) for each in found.phases
        ),
        breakdown={
            name: size for name, size in found.breakdown.items() if name != CATEGORIES[WORKSPACE]
        },
    )


def resident(case: Case, capability: tuple[int, int] = HOPPER) -> ByteLevel:
    """What a warmed-up worker holds between steps: weights, AdamW's moments, inputs, workspace."""
    sizes = [0] * len(CATEGORIES)
    sizes[PARAMETERS] = FP32_BYTES * case.reference.parameters
    if case.mode == "train":
        sizes[OPTIMIZER] = optimizer_state(case)
    sizes[INPUTS] = sum(inputs(case))
    sizes[WORKSPACE] = sum(workspaces(case, capability))
    tensors = tensor_sizes(case.reference)
    copies = 3 if case.mode == "train" else 1
    large = copies * sum(size > SMALL for size in tensors)
    rounded = copies * sum(-(-size // BLOCK_BYTES) * BLOCK_BYTES for size in tensors)
    rounded += sizes[INPUTS] + sizes[WORKSPACE]
    return ByteLevel(tuple(sizes), rounded, large)


def gradients(model: ModelShape) -> ByteLevel:
    """What the gradients of all parameters are, which wait between micro-batches."""
    sizes = tensor_sizes(model)
    live = list(ZERO.live)
    live[GRADIENTS] = sum(sizes)
    rounded = sum(-(-size // BLOCK_BYTES) * BLOCK_BYTES for size in sizes)
    return ByteLevel(tuple(live), rounded, sum(size > SMALL for size in sizes))


def tensor_sizes(model: ModelShape) -> list[int]:
    """Bytes of every parameter tensor, in the order in which the model makes them."""
    d, kv, ff = model.d_model, model.kv_dim, model.d_ff
    biases = [d, kv, kv] if model.qkv_bias else [0, 0, 0]
    projections = [d * d, biases[0], kv * d, biases[1], kv * d, biases[2], d * d]
    block = [d, *projections, d, d * ff, d * ff, ff * d]
    table = model.vocab_size * d
    head = [] if model.tie_embeddings else [table]
    numels = [table, *block * model.num_layers, d, *head]
    return [FP32_BYTES * numel for numel in numels if numel]


def workspaces(
    case: Case, capability: tuple[int, int], *, biased: bool | None = None
) -> tuple[int, ...]:
    """cuBLAS workspaces: one a thread that multiplies (forward, autograd), inside the allocator.

    32 MiB on compute capability 9 and 10, else 8.125 MiB (CUDABlas.cpp, CUBLAS_WORKSPACE_CONFIG
    unset); products with a bias take 1 MiB more for cublasLt, in the forward's thread. biased
    says so of an own model; None: as the case's shape has it.
    """
    each = 32 * MIB if capability[0] in (9, 10) else 8 * MIB + 128 * 1024
    lt = (MIB,) if (case.reference.qkv_bias if biased is None else biased) else ()
    return (*lt, each, each) if "backward" in case.phases else (*lt, each)


def optimizer_state(case: Case) -> int:
    """Bytes that AdamW keeps: two moments in fp32, and fused also a step count a tensor."""
    steps = FP32_BYTES * case.reference.parameter_tensors if case.optimizer == "fused" else 0
    return 2 * FP32_BYTES * case.reference.parameters + steps


def inputs(case: Case) -> tuple[int, ...]:
    """Bytes of RoPE's two tables, the causal mask, the loss scaler, tokens and targets."""
    length = case.context_length
    table = length * case.reference.head_dim // 2 * FP32_BYTES
    mask = length * length if case.attention == "naive" else 0
    scaler = 2 * FP32_BYTES if case.precision == "fp16" and "backward" in case.phases else 0
    if case.batch_size == 1:  # both are views of one row
        return table, table, mask, scaler, (length + 1) * INDEX, 0
    return table, table, mask, scaler, case.tokens * INDEX, case.tokens * INDEX


def optimizer_temporaries(case: Case) -> list[int]:
    """Bytes of each tensor that AdamW holds only while it steps: foreach, one a parameter."""
    sizes = tensor_sizes(case.reference)
    return {"foreach": sizes, "loop": [max(sizes)], "fused": []}[case.optimizer]


def _optimizer(case: Case, before: ByteLevel) -> PhaseLevel:
    """The optimizer's own tensors on top of what backward left."""
    temporary = list(ZERO.live)
    used = optimizer_temporaries(case)
    temporary[TEMPORARIES] = sum(used)
    step = ByteLevel(
        tuple(temporary),
        sum(-(-size // BLOCK_BYTES) * BLOCK_BYTES for size in used),
        sum(size > SMALL for size in used),
    )
    return PhaseLevel("optimizer", before.plus(step), before)


def _kernel(case: Case, capability: tuple[int, int]) -> str | None:
    if case.attention == "naive":
        return None
    item = 2 if case.precision in HALVES else FP32_BYTES
    return choose(item, case.reference.head_dim, capability)
