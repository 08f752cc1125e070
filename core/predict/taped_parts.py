"""What of a taped step lives how long: temporaries at their highest, what a block saves."""

from __future__ import annotations

from typing import cast

from llmprof.core.predict.byte_levels import ACTIVATIONS
from llmprof.core.predict.reference_step import Reference
from llmprof.core.predict.tape import Lifetime, Tape
from llmprof.core.predict.taped_depth import MIDDLE, TAPED_LAYERS, tape_step
from llmprof.core.spec.case import Case, Phase


def highest_temporaries(case: Case, capability: tuple[int, int]) -> tuple[int, Phase]:
    """Most bytes of temporaries that forward, loss and backward hold at once, and in which phase.

    A temporary is neither saved for backward nor a gradient that is kept, to its end. A layer's
    temporaries are gone after it, so the depth does not matter.
    """
    ended: list[Lifetime] = []
    tape = Tape(grad=case.mode != "forward", temporaries=ended)
    segments, _ = tape_step(tape, case, capability)
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
