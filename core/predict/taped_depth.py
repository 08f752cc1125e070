"""A step of any depth from a tape of three layers.

The level inside a middle layer depends on its depth only by what every middle layer leaves
behind, so one middle layer of the tape stands for all of them, forward and backward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from llmprof.core.predict.byte_levels import ACTIVATIONS, ZERO, ByteLevel
from llmprof.core.predict.reference_step import Reference
from llmprof.core.predict.tape import Lifetime, Tape, TapeSegment
from llmprof.core.spec.case import Case, Phase

TAPED_LAYERS = 3
MIDDLE = 1  # the layer of the tape that stands for those between the first and the last


@dataclass(frozen=True, slots=True)
class PhaseLevel:
    """What the step holds in a phase, beside what it held before the step."""

    phase: Phase
    peak: ByteLevel
    end: ByteLevel


def step_levels(case: Case, capability: tuple[int, int]) -> tuple[PhaseLevel, ...]:
    """Peak and final level of forward, loss and backward, as far as the case's mode goes."""
    layers = min(case.model.num_layers, TAPED_LAYERS)
    segments, dropped = _run(Tape(grad=case.mode != "forward"), case, layers, capability)
    return _merge(_deepen(segments, case.model.num_layers - layers, dropped))


def highest_temporaries(case: Case, capability: tuple[int, int]) -> tuple[int, Phase]:
    """Most bytes of temporaries that forward, loss and backward hold at once, and in which phase.

    A temporary is neither saved for backward nor a gradient that is kept, to its end. A layer's
    temporaries are gone after it, so the depth does not matter.
    """
    ended: list[Lifetime] = []
    tape = Tape(grad=case.mode != "forward", temporaries=ended)
    segments, _ = _run(tape, case, min(case.model.num_layers, TAPED_LAYERS), capability)
    changes = sorted(
        [(life.born, life.size) for life in ended] + [(life.died, -life.size) for life in ended]
    )
    level, best, phase, at = 0, 0, segments[0].phase, 0
    for clock, size in changes:
        while at + 1 < len(segments) and segments[at + 1].began <= clock:
            at += 1
        level += size
        if level > best:
            best, phase = level, segments[at].phase
    return best, cast(Phase, phase)


def saved_by_a_block(case: Case, capability: tuple[int, int]) -> list[tuple[int, int]]:
    """Elements and bytes an element of each tensor that a block saves for backward.

    Each storage once; autocast's copies of weights are not among them. The input of the block is,
    its output is the next block's.
    """
    tape = Tape()
    model = Reference(case, TAPED_LAYERS, capability, tape)
    logits = model.forward()
    block = [index for index, each in enumerate(tape.segments) if each.layer == MIDDLE]
    saved = {
        id(tensor): (tensor.numel, tensor.item)
        for node in tape.nodes
        if node.segment in block
        for tensor in node.saved
        if tensor.category == ACTIVATIONS and tensor.size
    }
    del logits
    tape.forget()
    return list(saved.values())


def _run(
    tape: Tape, case: Case, layers: int, capability: tuple[int, int]
) -> tuple[list[TapeSegment], ByteLevel]:
    """Segments of a step, and what a middle layer's autocast copies free when autocast ends."""
    model = Reference(case, layers, capability, tape)
    logits = model.forward()
    if "backward" in case.phases:
        tape.segment("loss", layers)
        loss = model.loss(logits)
        dropped = model.end_autocast(MIDDLE)
        tape.segment("backward", layers)
        del logits
        root = tape.new(1, 4)  # torch.autograd.backward holds it to the end
        tape.backward(root)
        del root
        tape.segment("end")
        del loss
    else:
        dropped = model.end_autocast(MIDDLE)
        tape.segment("end")
        tape.forget()
    segments = tape.segments[:-1]
    tape.segments = []
    return segments, dropped


def _deepen(segments: list[TapeSegment], extra: int, dropped: ByteLevel) -> list[PhaseLevel]:
    """The segments with the middle layer repeated `extra` times more."""
    offset = ZERO
    deep = []
    for index, segment in enumerate(segments):
        peak = segment.peak.plus(offset)
        if segment.layer == MIDDLE:
            net = segment.end.minus(segment.start)
            offset = offset.plus(net, extra)
            peak = max(peak, peak.plus(net, extra), key=lambda level: level.requested)
        if _ends_autocast(segments, index):
            offset = offset.plus(dropped, -extra)
        deep.append(PhaseLevel(cast(Phase, segment.phase), peak, segment.end.plus(offset)))
    return deep


def _ends_autocast(segments: list[TapeSegment], index: int) -> bool:
    """Whether autocast ends with this segment: after the loss, or after a lone forward."""
    last = index + 1 == len(segments) or segments[index + 1].phase == "backward"
    return last and segments[index].phase in ("forward", "loss")


def _merge(segments: list[PhaseLevel]) -> tuple[PhaseLevel, ...]:
    merged: dict[Phase, PhaseLevel] = {}
    for segment in segments:
        old = merged.get(segment.phase)
        peak = segment.peak
        if old is not None and old.peak.requested > peak.requested:
            peak = old.peak
        merged[segment.phase] = PhaseLevel(segment.phase, peak, segment.end)
    return tuple(merged.values())
