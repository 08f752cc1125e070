"""A prediction as the journal keeps it."""

from __future__ import annotations

from llmprof.core.events import Environment, Predicted
from llmprof.core.predict.closed_form import HOPPER, MemoryPrediction, Unpredictable, predict
from llmprof.core.predict.fits import CONTEXT_LOW, Room, fit_verdict
from llmprof.core.spec.case import Case


def predicted(
    index: int,
    case: Case,
    *,
    capability: tuple[int, int] | None = None,
    free_bytes: int | None = None,
    context_bytes: int | None = None,
) -> Predicted | None:
    """The closed form's prediction of a case on CUDA; None for what it does not know.

    free_bytes is what a new process could take of the card: total minus what others hold;
    context_bytes what of that its context takes, None where it was not measured.
    """
    try:
        prediction = predict(case, capability or HOPPER)
    except Unpredictable:
        return None
    return to_event(index, prediction, free_bytes, context_bytes)


def predicted_here(index: int, case: Case, environment: Environment) -> Predicted | None:
    """The prediction of a case for the card whose environment was read; None off CUDA."""
    if not environment.device.startswith("cuda"):
        return None
    return predicted(
        index,
        case,
        capability=environment.capability,
        free_bytes=free_for_a_process(environment),
        context_bytes=environment.context_bytes,
    )


def free_for_a_process(environment: Environment) -> int | None:
    """Bytes that a new process could take of the card, its context included; None: not known.

    What is free was read beside a context of the probe's own, which a worker's replaces.
    """
    free, context = environment.memory_free_bytes, environment.context_bytes
    return None if free is None else free + (CONTEXT_LOW if context is None else context)


def room_here(environment: Environment) -> Room | None:
    """The card of a run's machine as a new process finds it; None off CUDA or if not known."""
    free = free_for_a_process(environment)
    if free is None or not environment.device.startswith("cuda"):
        return None
    total = max(free, environment.memory_total_bytes or 0)
    capability = environment.capability or HOPPER
    name = environment.device_name
    return Room(name, total, capability, total - free, environment.context_bytes)


def to_event(
    index: int,
    prediction: MemoryPrediction,
    free_bytes: int | None,
    context_bytes: int | None = None,
) -> Predicted:
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
        verdict=None if free_bytes is None else fit_verdict(prediction, free_bytes, context_bytes),
        context_bytes=context_bytes,
        upper_bound=prediction.upper_bound,
    )
