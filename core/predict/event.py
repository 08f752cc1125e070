"""A prediction as the journal keeps it."""

from __future__ import annotations

from llmprof.core.events import Predicted
from llmprof.core.predict.fits import verdict
from llmprof.core.predict.memory import HOPPER, MemoryPrediction, Unpredictable, predict
from llmprof.core.spec import Case


def predicted(
    index: int,
    case: Case,
    *,
    capability: tuple[int, int] | None = None,
    free_bytes: int | None = None,
) -> Predicted | None:
    """The closed form's prediction of a case on CUDA; None for what it does not know.

    free_bytes is what a new process could take of the card: total minus what others hold.
    """
    try:
        prediction = predict(case, capability or HOPPER)
    except Unpredictable:
        return None
    return to_event(index, prediction, free_bytes)


def to_event(index: int, prediction: MemoryPrediction, free_bytes: int | None) -> Predicted:
    """The event of a prediction."""
    return Predicted(
        case=index,
        requested_bytes=prediction.requested_bytes,
        allocated_low=prediction.allocated_low,
        allocated_high=prediction.allocated_high,
        peak_phase=prediction.peak_phase,
        breakdown=prediction.breakdown,
        phase_peaks={each.phase: each.peak for each in prediction.phases},
        attention_kernel=prediction.kernel,
        verdict=None if free_bytes is None else verdict(prediction, free_bytes),
        upper_bound=prediction.upper_bound,
    )
