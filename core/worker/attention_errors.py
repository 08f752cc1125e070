"""Errors of an attention's output and gradients against naive attention in a wider dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from llmprof.core import events as ev
from llmprof.core.spec.case import Case
from llmprof.core.worker.component_dtypes import name_of
from llmprof.core.worker.failures import describe_failure

EXACT_LENGTH = 4096  # up to which the reference is computed in fp64


class HasAttention(Protocol):
    """An attention with the inputs of its steps."""

    case: Case
    q: Tensor
    k: Tensor
    v: Tensor
    gradient: Tensor | None

    def attend(self) -> Tensor:
        """One forward."""


def errors_of(stepper: HasAttention) -> ev.AttentionErrors:
    """Run the attention and its reference once more, untimed, on the same inputs.

    The reference is naive attention in fp64, of long contexts in fp32; where its scores do not
    fit there are no errors but the reason.
    """
    case = stepper.case
    short = case.context_length <= EXACT_LENGTH
    dtype = torch.float64 if short else torch.float32
    inputs = (stepper.q, stepper.k, stepper.v)
    try:
        own = _run(stepper.attend, inputs, stepper.gradient)
        wide = tuple(t.detach().to(dtype).requires_grad_(t.requires_grad) for t in inputs)
        gradient = None if stepper.gradient is None else stepper.gradient.to(dtype)
        exact = _run(lambda: _naive(*wide), wide, gradient)
    except RuntimeError as error:
        reason = describe_failure(error, None).message
        return ev.AttentionErrors(reference=name_of(dtype), reason=reason)
    found = [_relative(a, b) for a, b in zip(own, exact, strict=True)]
    output, query, key, value = (*found, None, None, None)[:4]
    return ev.AttentionErrors(
        reference=name_of(dtype), output=output, query=query, key=key, value=value
    )


def _naive(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    length = q.shape[-2]
    future = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.transpose(-2, -1)).div_(math.sqrt(q.shape[-1]))
    return torch.softmax(scores.masked_fill(future, -math.inf), dim=-1) @ v


def _run(
    attend: Callable[[], Tensor], inputs: tuple[Tensor, ...], gradient: Tensor | None
) -> list[Tensor]:
    """Output and, with a gradient for it, the gradients of Q, K and V."""
    with torch.set_grad_enabled(gradient is not None):
        output = attend()
    if gradient is None:
        return [output.detach()]
    gradients = torch.autograd.grad(output, inputs, gradient)
    return [output.detach(), *gradients]


def _relative(found: Tensor, exact: Tensor) -> float | None:
    error = ((found.to(exact.dtype) - exact).norm() / exact.norm()).item()
    return error if math.isfinite(error) else None
