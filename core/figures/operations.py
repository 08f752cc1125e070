"""Floating-point operations of a measured step: by formula, or as the worker counted them."""

from __future__ import annotations

from llmprof.core.predict.flops import BACKWARD_FACTOR, forward_flops, step_flops
from llmprof.core.state.view import CaseState

COUNTED = (
    "Operations of an own model are those of its matrix products, convolutions and attentions in "
    "one forward, as torch's counter sees them; a backward counts as two forwards."
)


def operations(state: CaseState) -> int | None:
    """Operations of one step of the case's mode; None for an own model that was not counted."""
    if state.case.shape is not None:
        return step_flops(state.case)
    forward = forward_operations(state)
    if forward is None:
        return None
    return forward * (1 + (BACKWARD_FACTOR if "backward" in state.case.phases else 0))


def forward_operations(state: CaseState) -> int | None:
    """Operations of one forward of the case; None for an own model that was not counted."""
    if state.case.shape is not None:
        return forward_flops(state.case)
    return None if state.observed is None else state.observed.forward_flops
