"""What a rule says, and what it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from llmprof.core.events import Environment
from llmprof.core.results import CaseState

Level = Literal["info", "warning", "error"]
LAUNCH_BOUND = 0.9  # host launch time ÷ wall time of a step


@dataclass(frozen=True)
class Verdict:
    """One judgement with the figure it rests on; an error is a figure that cannot be used."""

    rule: str
    level: Level
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
    """Whether a card waited for the host in most of a case's steps."""
    return on_card(context) and state.host_share is not None and state.host_share >= LAUNCH_BOUND


def number(value: float) -> str:
    """Three significant digits, with separators and never in powers of ten."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
