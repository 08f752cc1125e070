"""A step of any depth from a tape of three layers.

The level inside a middle layer depends on its depth only by what every middle layer leaves
behind, so one middle layer of the tape stands for all of them, forward and backward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from llmprof.core.predict.byte_levels import ZERO, ByteLevel
from llmprof.core.predict.reference_step import Reference
from llmprof.core.predict.tape import Tape, TapeSegment
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
    """Peak and final level of forward, loss and backward, as far as the case's mode goes.

    Of micro-batches, those of one that finds gradients; these themselves are not counted.
    """
    segments, dropped = tape_step(Tape(grad=case.mode != "forward"), case, capability)
    return _merge(_deepen(segments, case.reference.num_layers - taped_layers(case), dropped))


def taped_layers(case: Case) -> int:
    """How many layers of a case's model are taped.

    All with checkpoints, since levels depend on where a block lies in its own.
    """
    layers = case.reference.num_layers
    return layers if case.blocks_a_checkpoint is not None else min(layers, TAPED_LAYERS)


def tape_step(
    tape: Tape, case: Case, capability: tuple[int, int]
) -> tuple[list[TapeSegment], ByteLevel]:
    """Run a step: its segments, and what a middle layer's autocast copies free in the end."""
    layers = taped_layers(case)
    tape.accumulating = case.accumulate > 1
    case = case.micro_batch
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
