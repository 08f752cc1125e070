"""How large each part of a step's memory is, whether or not it is alive at the peak."""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core.predict.byte_levels import ACTIVATIONS, CATEGORIES
from llmprof.core.predict.closed_form import (
    FP32_BYTES,
    HOPPER,
    inputs,
    optimizer_state,
    optimizer_temporaries,
    workspaces,
)
from llmprof.core.predict.flops import matmul_parameters
from llmprof.core.predict.single_tensors import half_item, logits
from llmprof.core.predict.taped_depth import step_levels
from llmprof.core.predict.taped_parts import highest_temporaries
from llmprof.core.spec.axes import HALVES
from llmprof.core.spec.case import Case

LOGITS = "logits"
PARTS: tuple[str, ...] = (*CATEGORIES[:6], LOGITS, *CATEGORIES[6:])  # as they are listed
SAVED = "what forward saves for backward, as it stands when forward ends"
WORDS: dict[str, str] = {
    "parameters": "4 bytes × parameters, always",
    "gradients": "4 bytes × parameters, from backward to zero_grad",
    "optimizer state": "8 bytes × parameters, AdamW's two moments, always",
    "activations": f"{SAVED}; with "
    "checkpoints what stands at the peak of backward, one of them run again, where that is more",
    "autocast copies": "2 bytes × weights of matrix products, from forward until backward has used "
    "them",
    "temporaries": "at their highest, in whichever phase that is",
    LOGITS: "batch × context × vocabulary × bytes, from forward to backward; in what is alive at "
    "the peak they are temporaries",
    "workspace": "cuBLAS's own, always",
    "inputs and buffers": "tokens, targets, causal mask and RoPE's tables, always",
}


@dataclass(frozen=True, slots=True)
class PartSize:
    """Bytes of one part, and how they come about."""

    name: str  # one of PARTS
    size: int
    formula: str


def part_sizes(case: Case, capability: tuple[int, int] = HOPPER) -> tuple[PartSize, ...]:
    """The parts that a step of the case has, in the order of PARTS; not alive all at once.

    None of an own model, of which a trace tells the peaks alone.
    """
    if case.shape is None:
        return ()
    parts = [
        PartSize("parameters", FP32_BYTES * case.reference.parameters, _of_parameters(case, 4))
    ]
    if "backward" in case.phases:
        parts.append(
            PartSize("gradients", FP32_BYTES * case.reference.parameters, parts[0].formula)
        )
    if case.mode == "train":
        parts.append(_state(case))
    if case.mode != "forward":
        parts.append(_activations(case, capability))
    if case.precision in HALVES:
        parts.append(_copies(case))
    parts.append(_temporaries(case, capability))
    tensor = logits(case)
    parts.append(PartSize(LOGITS, tensor.size, tensor.numbers))
    used = workspaces(case, capability)
    parts.append(PartSize("workspace", sum(used), " + ".join(f"{size:,}" for size in used)))
    parts.append(PartSize("inputs and buffers", sum(inputs(case)), WORDS["inputs and buffers"]))
    return tuple(parts)


def _of_parameters(case: Case, each: int) -> str:
    return f"{each} bytes × {case.reference.parameters:,} parameters"


def _state(case: Case) -> PartSize:
    formula = _of_parameters(case, 8)
    if case.optimizer == "fused":
        formula += f" + 4 bytes × {case.reference.parameter_tensors:,} tensors"
    return PartSize("optimizer state", optimizer_state(case), formula)


def _activations(case: Case, capability: tuple[int, int]) -> PartSize:
    levels = {level.phase: level for level in step_levels(case, capability)}
    waiting = levels["forward"].end.live[ACTIVATIONS]
    if case.blocks_a_checkpoint is not None and "backward" in levels:
        again = levels["backward"].peak.live[ACTIVATIONS]
        if again > waiting:
            words = "inputs of checkpoints that are left and what one saves, run again"
            return PartSize("activations", again, words)
        return PartSize("activations", waiting, "inputs of checkpoints, as forward ends")
    return PartSize("activations", waiting, SAVED)


def _copies(case: Case) -> PartSize:
    model = case.reference
    biases = model.num_layers * (model.d_model + 2 * model.kv_dim) if model.qkv_bias else 0
    copied = matmul_parameters(model) + biases
    item = half_item(case)
    return PartSize("autocast copies", item * copied, f"{item} bytes × {copied:,} weights")


def _temporaries(case: Case, capability: tuple[int, int]) -> PartSize:
    size, phase = highest_temporaries(case, capability)
    step = sum(optimizer_temporaries(case)) + FP32_BYTES if case.mode == "train" else 0
    if step <= size:
        return PartSize("temporaries", size, f"at their highest, in {phase}")
    whole = case.optimizer == "foreach"
    tensors = _of_parameters(case, 4) if whole else "4 bytes × the largest tensor"
    return PartSize("temporaries", step, f"{tensors} and the loss, in the step of AdamW")
