"""Device samples joined to the steps that were running: what the card did in each case."""

from __future__ import annotations

from dataclasses import dataclass, field

from llmprof.core import intervals as iv
from llmprof.core.blocks import LEVELS, Block, Energy, Level, energy_of, throttling, work_of_others
from llmprof.core.devices.matching import match
from llmprof.core.events import CardProcess, Environment
from llmprof.core.results import CaseState, RunView
from llmprof.core.series import CardHistoryView
from llmprof.core.steps import StepsView

BRIEF_NS = 3_000_000_000  # processes are read every two seconds


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
    sm_clock: Level | None = None
    sm_clock_max: float | None = None
    memory_clock: Level | None = None
    power: Level | None = None
    power_limit: float | None = None
    temperature: Level | None = None
    utilization: Level | None = None
    utilization_window_ms: float | None = None
    memory_utilization: Level | None = None
    memory_used: Level | None = None
    throttled_s: float | None = None
    throttle_reasons: dict[str, float] = field(default_factory=dict)  # reason -> seconds
    energy: Energy | None = None
    marks: tuple[StepMark, ...] = ()
    others: tuple[CardProcess, ...] = ()  # foreign processes on the card during the case
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def throttled_steps(self) -> int:
        """Measured steps during which clocks were held down."""
        return sum(mark.throttled for mark in self.marks)

    @property
    def shared_steps(self) -> int:
        """Measured steps during which another process used the card, or may have."""
        return sum(mark.shared for mark in self.marks)

    def mark(self, position: int) -> StepMark | None:
        """The mark of one measured step."""
        return next((mark for mark in self.marks if mark.position == position), None)


def _nameless(process: CardProcess) -> bool:
    return not process.local and process.command is None and process.user is None


def run_card(view: RunView) -> CardHistoryView | None:
    """The card that the run's workers used, matched by UUID or bus id."""
    return _card_of(view, view.environment)


def _card_of(view: RunView, environment: Environment | None) -> CardHistoryView | None:
    if environment is None or environment.device == "cpu":
        return None
    lasts = [card.last for card in view.cards.values() if card.last is not None]
    found = match(lasts, environment.device_uuid, environment.pci_bus_id)
    if found is None and environment.device_uuid is None and environment.pci_bus_id is None:
        found = lasts[0] if len(lasts) == 1 else None
    return None if found is None else view.cards[found.index]


def case_card(view: RunView, case: CaseState) -> CardHistoryView | None:
    """The card that a case's worker used."""
    return _card_of(view, case.environment or view.environment)


def join_run(view: RunView) -> tuple[CaseDevice, ...]:
    """Every case of a run."""
    return tuple(join_case(view, case) for case in view.cases)


def join_case(view: RunView, case: CaseState) -> CaseDevice:
    """One case of a run."""
    return _join(view, case, case_card(view, case))


def verdicts(view: RunView, joined: CaseDevice) -> tuple[str, ...]:
    """What to be warned of, a sentence each; empty when the card was ours and at full speed."""
    steps = len(view.cases[joined.case].measured)
    said = []
    if joined.throttled_s:
        why = ", ".join(
            f"{name} {seconds:.1f} s" for name, seconds in joined.throttle_reasons.items()
        )
        said.append(
            f"clocks were held down during {joined.throttled_steps} of {steps} steps: {why}"
        )
    if joined.others:
        who = "; ".join(describe(process) for process in joined.others)
        work = (
            f"{joined.shared_steps} of {steps} steps ran while it worked or may have"
            if joined.shared_steps
            else "it only held memory"
        )
        said.append(f"another process was on the card ({who}): {work}")
    return tuple(said)


def describe(process: CardProcess) -> str:
    """A process in a few words: pid, user, command."""
    where = "" if process.local else "host "
    pid = "unknown pid" if process.pid is None else f"{where}pid {process.pid}"
    parts = [pid, process.user or "", process.command or ""]
    return ", ".join(part for part in parts if part)


def other_processes(view: RunView) -> tuple[CardProcess, ...]:
    """Every process of others that was on the run's card, newest knowledge of each."""
    card = run_card(view)
    if card is None:
        return ()
    return _present(card, 0, view.last_t)


def _join(view: RunView, case: CaseState, card: CardHistoryView | None) -> CaseDevice:
    reason = _why_none(view, case, card)
    if reason is not None or card is None or card.last is None:
        return CaseDevice(case.index, reason=reason)
    block = Block(card, case)
    throttled, reasons, throttled_at = throttling(block)
    energy = energy_of(block, case)
    levels = {name: block.level(name) for name in LEVELS}
    missing = {name: block.why_missing(name) for name, level in levels.items() if level is None}
    if isinstance(energy, str):
        missing["energy"] = energy
    if throttled is None:
        missing["throttled_s"] = block.why_missing("throttle")
    return CaseDevice(
        case=case.index,
        card=card.last.index,
        block_s=block.seconds,
        sm_clock_max=block.constant("sm_clock_max"),
        power_limit=block.constant("power_limit"),
        utilization_window_ms=block.constant("utilization_window"),
        throttled_s=throttled,
        throttle_reasons=reasons,
        energy=None if isinstance(energy, str) else energy,
        marks=_marks(case.measured, throttled_at, work_of_others(block)),
        others=_present(card, case.started_ns or block.start, case.ended_ns or block.end),
        missing=missing,
        sm_clock=levels["sm_clock"],
        memory_clock=levels["memory_clock"],
        temperature=levels["temperature"],
        memory_used=levels["memory_used"],
        power=levels["power"],
        utilization=levels["utilization"],
        memory_utilization=levels["memory_utilization"],
    )


def _why_none(view: RunView, case: CaseState, card: CardHistoryView | None) -> str | None:
    environment = case.environment or view.environment
    if environment is None:
        return "the device is not known yet"
    if environment.device == "cpu":
        return "the case runs on the CPU"
    if not view.cards:
        sample = view.last_sample
        return (sample.cards_reason if sample else None) or "no device samples"
    if card is None:
        return "torch's device is none of the cards that NVML lists"
    if not len(case.measured):
        return "no measured steps"
    return None


def _marks(
    steps: StepsView, throttled: list[iv.Interval], shared: list[iv.Interval]
) -> tuple[StepMark, ...]:
    if not throttled and not shared:
        return ()
    starts = steps.start_ns()
    ends = [s + round(ms * 1e6) for s, ms in zip(starts, steps.wall_ms(), strict=True)]
    slow = set(iv.touched(starts, ends, throttled))
    crowded = set(iv.touched(starts, ends, shared))
    return tuple(StepMark(at, at in slow, at in crowded) for at in sorted(slow | crowded))


def _present(card: CardHistoryView, start: int, end: int) -> tuple[CardProcess, ...]:
    """Others on the card between two times, each once.

    A nameless pid of one reading is left out: a process that ended while it was looked up.
    """
    found: dict[object, CardProcess] = {}
    for at, (t, processes) in enumerate(card.others):
        following = card.others[at + 1][0] if at + 1 < len(card.others) else None
        if t < end and (following is None or following > start):
            brief = following is not None and following - t < BRIEF_NS
            found.update({(p.pid, p.command): p for p in processes if not (brief and _nameless(p))})
    return tuple(found.values())
