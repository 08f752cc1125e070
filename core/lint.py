"""Verdicts on a case: is the figure steady, is the step launch-bound, is it what was asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from llmprof.core.events import Environment
from llmprof.core.results import CaseState
from llmprof.core.stats import stability

Level = Literal["info", "warning", "error"]
LAUNCH_BOUND = 0.9  # host launch time ÷ wall time of a step


@dataclass(frozen=True)
class Verdict:
    """One judgement with the figure it rests on."""

    rule: str
    level: Level
    text: str


Rule = Callable[[CaseState, Environment | None], Verdict | None]


def verdicts(state: CaseState, environment: Environment | None) -> tuple[Verdict, ...]:
    """All verdicts on a case, in the order of RULES."""
    return tuple(v for rule in RULES if (v := rule(state, environment)) is not None)


def spread(state: CaseState, environment: Environment | None) -> Verdict | None:
    """Stability of the step's total."""
    if state.total is None:
        return None
    text = stability(state.total)
    steady = text in ("very stable", "acceptable")
    cv = state.total.cv_percent
    figure = "" if cv is None else f" (CV {cv:.1f} %)"
    return Verdict("stability", "info" if steady else "warning", text + figure)


def launch_bound(state: CaseState, environment: Environment | None) -> Verdict | None:
    """Whether the host, not the card, sets the pace. Only a card can be launch-bound."""
    if environment is None or environment.device == "cpu" or state.host_share is None:
        return None
    share = 100 * state.host_share
    if state.host_share >= LAUNCH_BOUND:
        text = f"launch-bound: the host spends {share:.0f} % of the step enqueueing work"
        return Verdict("launch-bound", "warning", text)
    return Verdict("launch-bound", "info", f"GPU-bound: launches take {share:.0f} % of the step")


def requested_observed(state: CaseState, environment: Environment | None) -> Verdict | None:
    """Differences between what was asked for and what ran."""
    wrong = differences(state)
    if not wrong:
        return None
    return Verdict("requested-observed", "error", "; ".join(wrong))


def differences(state: CaseState) -> list[str]:
    """Each way in which the observed run is not the requested one."""
    seen, case = state.observed, state.case
    wrong: list[str] = []
    if state.model is not None and state.model.parameters != case.model.parameters:
        wrong.append(
            f"{state.model.parameters:,} parameters were built, {case.model.parameters:,} asked"
        )
    if seen is None:
        return wrong
    expected = {"bf16": "bfloat16", "fp16": "float16"}.get(case.precision, "float32")
    if seen.logits_dtype not in (None, expected):
        wrong.append(f"{case.precision} asked, but the logits are {seen.logits_dtype}")
    if seen.tf32 is not None and seen.tf32 != (case.precision == "tf32"):
        wrong.append(f"{case.precision} asked, but TF32 was {'on' if seen.tf32 else 'off'}")
    for name in ("batch_size", "context_length"):
        value = getattr(seen, name)
        if value not in (None, getattr(case, name)):
            wrong.append(f"{name} {getattr(case, name)} asked, {value} used")
    if seen.parameters_changed is False:
        wrong.append("the optimizer changed no parameter")
    if seen.qkv_gradients is False:
        wrong.append("Q, K or V has no gradient")
    if seen.recompilations:
        wrong.append(f"{seen.recompilations} recompilations in the measured steps")
    return wrong


RULES: tuple[Rule, ...] = (requested_observed, spread, launch_bound)
