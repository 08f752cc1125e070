"""Whether two cases train alike: the losses of the same steps from the same seed."""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core.spec.axes import Precision
from llmprof.core.state.view import CaseState

STEPS = 20
# Largest relative difference that a precision's rounding explains over STEPS steps on one batch.
# Seen on an H100 and an H200, small to large: fp32 9e-7, tf32 0.025, bf16 0.020, fp16 0.003.
EXPLAINED: dict[Precision, float] = {"fp32": 1e-4, "tf32": 0.06, "bf16": 0.08, "fp16": 0.06}


@dataclass(frozen=True)
class LossDifference:
    """How far losses lie apart over the steps that both cases have."""

    steps: int
    largest: float  # relative
    explained: float  # by the less exact of the two precisions

    @property
    def unexplained(self) -> bool:
        """Whether the cases train differently."""
        return not self.largest <= self.explained


def losses(state: CaseState) -> list[float | None]:
    """The losses before the first, second, … update, unknown ones None.

    A compiled case's first step compiled and is among neither warm-up nor measured steps.
    """
    rows = sorted((*state.warmup, *state.measured), key=lambda row: row.start_ns)
    first = [None] if state.observed is None else [state.observed.compile_loss]
    return [*(first if state.case.compile else []), *(row.loss for row in rows)]


def loss_difference(state: CaseState, base: CaseState) -> LossDifference | None:
    """The largest relative difference within the first STEPS steps of training; else None."""
    if state.case.mode != "train" or base.case.mode != "train":
        return None
    pairs = zip(losses(state)[:STEPS], losses(base)[:STEPS], strict=False)
    apart = [abs(a - b) / abs(b) for a, b in pairs if a is not None and b]
    if not apart:
        return None
    explained = max(EXPLAINED[case.precision] for case in (state.case, base.case))
    return LossDifference(len(apart), max(apart), explained)
