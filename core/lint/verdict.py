"""What a rule says, and what it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from llmprof.core.events import Environment
from llmprof.core.state.view import CaseState

Severity = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Verdict:
    """One judgement with the figure it rests on; an error is a figure that cannot be used."""

    rule: str
    level: Severity
    text: str


@dataclass(frozen=True)
class Context:
    """Where a case ran, and the peak that the user gave for it."""

    environment: Environment | None
    given_peak: float | None = None


Rule = Callable[[CaseState, Context], Verdict | None]


def on_card(context: Context) -> bool:
    """Whether the case ran on a CUDA card."""
    return context.environment is not None and context.environment.device.startswith("cuda")


def waits_for_host(state: CaseState, context: Context) -> bool:
    """Whether the host's launches, not the card, set the pace of most of a case's step."""
    found = state.launch_bound if on_card(context) else None
    return found is not None and found.most_of_step
