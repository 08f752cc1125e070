"""What a run would take: its time by the pace of a machine, its memory by the closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llmprof.core.engine.plan import estimate_s, left_out
from llmprof.tui.bench.forecast import CardChoice, Forecast, Need

if TYPE_CHECKING:
    from llmprof.core.events import Environment
    from llmprof.core.spec.experiment import Experiment

LOOK_S = 0.2  # of predicting at most: the largest cases are looked at first


@dataclass(frozen=True)
class Outlook:
    """Cases, seconds (None: no rate is known), and what cannot fit where it would run."""

    cases: int
    seconds: float | None
    too_large: tuple[Need, ...] = ()
    room_bytes: int = 0  # of the device, in all

    @property
    def models_too_large(self) -> tuple[str, ...]:
        """Models of which a case cannot fit."""
        return tuple(dict.fromkeys(need.case.model.name for need in self.too_large))


def seconds_of(experiment: Experiment, environment: Environment | None) -> tuple[int, float | None]:
    """How many cases would be measured, and estimated seconds of these; None: no rate is known.

    On a CPU a budget may leave out the rest.
    """
    if environment is None:
        return len(experiment.cases()), None
    cases = experiment.cases()
    estimates = [estimate_s(case, environment) for case in cases]
    budget = experiment.cpu_budget_s if environment.device == "cpu" else None
    skipped = left_out(cases, estimates, budget, experiment.name)
    known = [each for at, each in enumerate(estimates) if each is not None and at not in skipped]
    return len(cases) - len(skipped), sum(known) if known else None


def outlook(
    experiment: Experiment, environment: Environment | None, here: CardChoice | None
) -> Outlook:
    """What a run of an experiment would take on this machine."""
    count, seconds = seconds_of(experiment, environment)
    if here is None:
        return Outlook(count, seconds)
    forecast = Forecast(here, experiment.cases(), ())
    forecast.work(LOOK_S)
    too_large = tuple(need for need in forecast.needs if need.verdict == "does not fit")
    return Outlook(count, seconds, too_large, here.room.total_bytes)
