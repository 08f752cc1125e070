"""Device samples joined to the steps that were running: what the card did in each case."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from llmprof.core.events import CardProcess
from llmprof.core.figures import card_levels
from llmprof.core.figures.card_levels import Energy, MetricLevel
from llmprof.core.state.card_tally import LEVELS, CardTally, environment_card
from llmprof.core.state.histories import CardHistoryView
from llmprof.core.state.position_ranges import Stretches
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.text import counted


@dataclass(frozen=True)
class StepMark:
    """A step that did not have the card at full speed or to itself."""

    position: int  # in the case's measured steps
    throttled: bool = False
    shared: bool = False


@dataclass(frozen=True)
class CaseDevice:
    """What the card did while the measured steps of one case ran.

    reason says why nothing is known; each part that is None has its own in `missing`, by name.
    """

    case: int
    card: int | None = None
    reason: str | None = None
    block_s: float | None = None
    sm_clock: MetricLevel | None = None
    sm_clock_max: float | None = None
    memory_clock: MetricLevel | None = None
    power: MetricLevel | None = None
    power_limit: float | None = None
    temperature: MetricLevel | None = None
    utilization: MetricLevel | None = None
    utilization_window_ms: float | None = None
    memory_utilization: MetricLevel | None = None
    memory_used: MetricLevel | None = None
    throttled_s: float | None = None
    throttle_reasons: dict[str, float] = field(default_factory=dict)  # reason -> seconds
    energy: Energy | None = None
    throttled: Stretches = field(default_factory=Stretches)  # positions of measured steps
    shared: Stretches = field(default_factory=Stretches)
    others: tuple[CardProcess, ...] = ()  # foreign processes on the card during the case
    more_others: bool = False  # there were more than are named
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def throttled_steps(self) -> int:
        """Measured steps during which clocks were held down."""
        return len(self.throttled)

    @property
    def shared_steps(self) -> int:
        """Measured steps during which another process used the card, or may have."""
        return len(self.shared)

    @cached_property
    def disturbed(self) -> Stretches:
        """Measured steps of either kind."""
        return self.throttled.union(self.shared)

    @property
    def marks(self) -> tuple[StepMark, ...]:
        """The disturbed steps in order."""
        found = map(self.mark, self.disturbed)
        return tuple(mark for mark in found if mark is not None)

    def mark(self, position: int) -> StepMark | None:
        """The mark of one measured step."""
        throttled, shared = position in self.throttled, position in self.shared
        return StepMark(position, throttled, shared) if throttled or shared else None


def run_card(view: RunView) -> CardHistoryView | None:
    """The card that the run's workers used, matched by UUID or bus id."""
    lasts = [card.last for card in view.cards.values() if card.last is not None]
    found = environment_card(lasts, view.environment)
    return None if found is None else view.cards[found.index]


def join_run(view: RunView) -> tuple[CaseDevice, ...]:
    """Every case of a run."""
    return tuple(join_case(view, case) for case in view.cases)


def join_case(view: RunView, case: CaseState) -> CaseDevice:
    """One case of a run."""
    tally = view.tally(case)
    reason = _why_none(view, case, tally)
    if reason is not None or tally is None:
        return CaseDevice(case.index, reason=reason)
    return _join(case, tally)


def disturbances(view: RunView, joined: CaseDevice) -> tuple[str, ...]:
    """What to be warned of, a sentence each; empty when the card was ours and at full speed."""
    steps = len(view.cases[joined.case].measured)
    said = []
    if joined.throttled_s:
        why = ", ".join(
            f"{name} {seconds:.1f} s" for name, seconds in joined.throttle_reasons.items()
        )
        said.append(
            f"clocks were held down during {joined.throttled_steps} of "
            f"{counted(steps, 'step')}: {why}"
        )
    if joined.others:
        who = "; ".join(describe_process(process) for process in joined.others)
        who += " and others" if joined.more_others else ""
        work = (
            f"{joined.shared_steps} of {counted(steps, 'step')} ran while it worked or may have"
            if joined.shared_steps
            else "it only held memory"
        )
        said.append(f"another process was on the card ({who}): {work}")
    return tuple(said)


def describe_process(process: CardProcess) -> str:
    """A process in a few words: pid, user, command."""
    where = "" if process.local else "host "
    pid = "unknown pid" if process.pid is None else f"{where}pid {process.pid}"
    parts = [pid, process.user or "", process.command or ""]
    return ", ".join(part for part in parts if part)


def other_processes(view: RunView) -> tuple[CardProcess, ...]:
    """The processes of others that were on the card during the cases, each once."""
    found: dict[tuple[int | None, str | None], CardProcess] = {}
    for each in join_run(view):
        found.update({(process.pid, process.command): process for process in each.others})
    return tuple(found.values())


def _join(case: CaseState, tally: CardTally) -> CaseDevice:
    energy = card_levels.energy_of(tally, case.case.tokens)
    levels = {name: card_levels.level(tally, name) for name in LEVELS}
    throttled_s = card_levels.throttled_s(tally)
    missing = {
        name: card_levels.why_missing(tally, name)
        for name, level in levels.items()
        if level is None
    }
    if isinstance(energy, str):
        missing["energy"] = energy
    if throttled_s is None:
        missing["throttled_s"] = card_levels.why_missing(tally, "throttle")
    return CaseDevice(
        case=case.index,
        card=tally.card,
        block_s=card_levels.block_seconds(tally),
        sm_clock_max=tally.constants.get("sm_clock_max"),
        power_limit=tally.constants.get("power_limit"),
        utilization_window_ms=tally.constants.get("utilization_window"),
        throttled_s=throttled_s,
        throttle_reasons=card_levels.throttle_reasons(tally),
        energy=None if isinstance(energy, str) else energy,
        throttled=tally.throttled,
        shared=tally.shared,
        others=tuple(tally.tenants.found.values()),
        more_others=tally.tenants.more,
        missing=missing,
        sm_clock=levels["sm_clock"],
        memory_clock=levels["memory_clock"],
        temperature=levels["temperature"],
        memory_used=levels["memory_used"],
        power=levels["power"],
        utilization=levels["utilization"],
        memory_utilization=levels["memory_utilization"],
    )


def _why_none(view: RunView, case: CaseState, tally: CardTally | None) -> str | None:
    environment = case.environment or view.environment
    if environment is None:
        return "the device is not known yet"
    if environment.device == "cpu":
        return "the case runs on the CPU"
    if tally is None and not view.cards:
        sample = view.last_sample
        return (sample.cards_reason if sample else None) or "no device samples"
    if tally is None:
        return "torch's device is none of the cards that NVML lists"
    if not len(case.measured):
        return "no measured steps"
    return None
