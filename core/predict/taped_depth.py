"""A step of any depth from a tape of three layers.

The level inside a middle layer depends on its depth only by what every middle layer leaves
behind, so one middle layer of the tape stands for all of them, forward and backward.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    Of micro-batches, those of one that finds gradients; these themselves are not counted. With
    checkpoints the levels depend on where a block lies in its own, so that all are taped.
    """
    accumulating = case.accumulate > 1
    case = case.micro_batch
    layers = case.model.num_layers
    if case.blocks_a_checkpoint is None:
        layers = min(layers, TAPED_LAYERS)
    segments, dropped = _tape(case, layers, capability, accumulating=accumulating)
    return _merge(_deepen(segments, case.model.num_layers - layers, dropped))


def _tape(
    case: Case, layers: int, capability: tuple[int, int], *, accumulating: bool
) -> tuple[list[TapeSegment], ByteLevel]:
    """Segments of a step, and what a middle layer's autocast copies free when autocast ends."""
    tape = Tape(grad=case.mode != "forward", accumulating=accumulating)
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


def _deepen(segments: list[TapeSegment], extra: int, dropped: ByteLevel) -> list[TapeSegment]:
    """The segments with the middle layer repeated `extra` times more."""
    if extra <= 0:
        return segments
    offset = ZERO
    deep = []
    for index, segment in enumerate(segments):
        start, peak = segment.start.plus(offset), segment.peak.plus(offset)
        if segment.layer == MIDDLE:
            net = segment.end.minus(segment.start)
            offset = offset.plus(net, extra)
            peak = max(peak, peak.plus(net, extra), key=lambda level: level.requested)
        if _ends_autocast(segments, index):
            offset = offset.plus(dropped, -extra)
        deep.append(
            TapeSegment(segment.phase, segment.layer, start, peak, segment.end.plus(offset))
        )
    return deep


def _ends_autocast(segments: list[TapeSegment], index: int) -> bool:
    """Whether autocast ends with this segment: after the loss, or after a lone forward."""
    last = index + 1 == len(segments) or segments[index + 1].phase == "backward"
    return last and segments[index].phase in ("forward", "loss")


def _merge(segments: list[TapeSegment]) -> tuple[PhaseLevel, ...]:
    merged: dict[str, PhaseLevel] = {}
    for segment in segments:
        old = merged.get(segment.phase)
        peak = segment.peak
        if old is not None and old.peak.requested > peak.requested:
            peak = old.peak
        merged[segment.phase] = PhaseLevel(segment.phase, peak, segment.end)  # type: ignore[arg-type]
    return tuple(merged.values())
