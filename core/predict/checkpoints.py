"""Which number of blocks a checkpoint is predicted best, by memory, and what it costs in time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import msgspec

from llmprof.core.predict.closed_form import HOPPER, predict
from llmprof.core.predict.flops import recomputed_flops, step_flops
from llmprof.core.spec.case import Case, Phase

TIE = 1e-4  # of a peak: what is closer is a tie


@dataclass(frozen=True, slots=True)
class CheckpointPeaks:
    """Requested bytes that are predicted with so many blocks a checkpoint (None: without)."""

    blocks: int | None
    backward: int
    step: int  # the highest of all phases
    top: Phase  # the phase that reaches it


@lru_cache(64)
def checkpoint_peaks(
    case: Case, capability: tuple[int, int] = HOPPER
) -> tuple[CheckpointPeaks, ...]:
    """Without checkpoints and with each number of them, fewest blocks first.

    Of numbers of blocks that give as many checkpoints, the least. The case must have a backward.
    """
    layers = case.reference.num_layers
    least = {-(-layers // blocks): blocks for blocks in range(layers, 0, -1)}
    return tuple(_peaks(case, blocks, capability) for blocks in (None, *sorted(least.values())))


def best_blocks(
    case: Case, capability: tuple[int, int] = HOPPER, *, of_step: bool = False
) -> tuple[CheckpointPeaks, ...]:
    """The lowest peak of the backward, or of the whole step, and what ties with it."""

    def key(each: CheckpointPeaks) -> int:
        return each.step if of_step else each.backward

    found = checkpoint_peaks(case, capability)
    lowest = min(map(key, found))
    return tuple(each for each in found if key(each) <= lowest * (1 + TIE))


def recompute_share(case: Case) -> float:
    """Operations that a step does once more for its checkpoints, as a share of the plain step's.

    An estimate of what they cost in time where the device is busy.
    """
    return recomputed_flops(case) / step_flops(case)


def _peaks(case: Case, blocks: int | None, capability: tuple[int, int]) -> CheckpointPeaks:
    found = predict(msgspec.structs.replace(case, checkpoint=blocks), capability)
    backward = next(each.peak for each in found.phases if each.phase == "backward")
    return CheckpointPeaks(blocks, backward, found.requested_bytes, found.peak_phase)
