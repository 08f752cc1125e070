"""A run as its events have told it: frozen, shared by everything that shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from llmprof.core import events as ev
from llmprof.core.spec.case import Case, Phase
from llmprof.core.spec.experiment import Experiment
from llmprof.core.state.card_tally import CardTally, CaseSpan, tally_of
from llmprof.core.state.histories import CardHistoryView, SeriesView
from llmprof.core.state.launch_bound import LaunchBound, launch_bound
from llmprof.core.state.loops import LoopState
from llmprof.core.state.step_columns import StepsView
from llmprof.core.stats.summary import Summary, summarize

CaseStatus = Literal[
    "pending",
    "running",
    "ok",
    "oom",
    "error",
    "killed",
    "stopped",
    "timeout",
    "unsupported",
    "skipped",
]


@dataclass(frozen=True)
class CaseState:
    """All that is known of one case; replaced, never changed, when an event arrives."""

    index: int
    case: Case
    status: CaseStatus = "pending"
    attempt: int = 0
    started_ns: int | None = None
    ended_ns: int | None = None
    estimate_s: float | None = None
    model: ev.ModelBuilt | None = None
    own_optimizer: str = ""  # of this model, as any case of it was built; "": AdamW as asked for
    observed: ev.Observed | None = None
    memory: ev.MemoryStep | None = None
    predicted: ev.Predicted | None = None
    memory_timeline: ev.MemoryTimeline | None = None
    at_failure: ev.MemoryAtFailure | None = None
    kernels: ev.KernelTable | None = None
    timeline: ev.TimelineFacts | None = None
    lens: ev.AttentionLens | None = None
    ceilings: ev.Ceilings | None = None
    environment: ev.Environment | None = None  # in which it ran
    failure: ev.Failure | None = None
    tally: CardTally | None = None  # of its card, up to some moment; final once it is over
    bad_losses: int = 0  # steps whose loss was NaN or infinite
    warmup: StepsView = field(default_factory=StepsView)
    measured: StepsView = field(default_factory=StepsView)

    @property
    def done(self) -> bool:
        """Whether nothing more will come of this case."""
        return self.status not in ("pending", "running")

    def has_part(self, phase: str) -> bool:
        """Whether a step has a phase of this name: no loss where the forward computes it."""
        return phase != "loss" or self.model is None or not self.model.loss_inside

    @property
    def steps_done(self) -> int:
        """Steps finished, warm-up included."""
        return len(self.warmup) + len(self.measured)

    @property
    def steps_planned(self) -> int:
        """Steps asked for, warm-up included; automatic ones as far as they have come."""
        warmup, measured = self.case.warmup_steps, self.case.measure_steps
        if self.case.warmup_auto:
            warmup = len(self.warmup) if len(self.measured) else len(self.warmup) + 1
        if self.case.target_percent is not None:
            measured = len(self.measured) + (not self.done)
        return warmup + measured

    @cached_property
    def summaries(self) -> dict[Phase, Summary]:
        """Measured device time of each phase that this mode has, milliseconds."""
        return {
            phase: summarize(times)
            for phase in self.case.phases
            if (times := self.measured.device_ms(phase))
        }

    @cached_property
    def total(self) -> Summary | None:
        """Measured device time of whole steps, milliseconds."""
        return summarize(self.measured.total_ms()) if len(self.measured) else None

    @cached_property
    def wall(self) -> Summary | None:
        """Measured wall time of whole steps, milliseconds."""
        return summarize(self.measured.wall_ms()) if len(self.measured) else None

    @cached_property
    def host_share(self) -> float | None:
        """Median of host launch time over wall time of a step: near 1 means launch-bound.

        None on a CPU, where both are the same clock.
        """
        on_cpu = self.environment is not None and self.environment.device == "cpu"
        return None if on_cpu else self.measured.host_share()

    @cached_property
    def launch_bound(self) -> LaunchBound | None:
        """The phases of which the host sets the pace; None where that is not known."""
        return launch_bound(self.measured)


@dataclass(frozen=True)
class RunView:
    """A run as it stands at one moment."""

    run_id: str = ""
    experiment: Experiment | None = None
    command: tuple[str, ...] = ()
    segments: tuple[ev.Segment, ...] = ()
    environment: ev.Environment | None = None
    cases: tuple[CaseState, ...] = ()
    loops: tuple[LoopState, ...] = ()  # of someone's own training, a rank each
    outcome: ev.Outcome | None = None
    going: bool = False  # it was still written when it was read, as far as whoever read it knows
    host_cpu: SeriesView = field(default_factory=SeriesView)
    host_memory: SeriesView = field(default_factory=SeriesView)
    cards: dict[int, CardHistoryView] = field(default_factory=dict)
    last_sample: ev.DeviceSample | None = None  # with all that is known of its cards
    log: tuple[ev.Log, ...] = ()
    last_t: int = 0
    events: int = 0
    unknown_events: int = 0
    damaged_lines: int = 0

    @property
    def state_words(self) -> str:
        """How it ended, or that it goes on."""
        return self.outcome or ("running" if self.going else "interrupted")

    @property
    def current(self) -> CaseState | None:
        """The case that is running."""
        return next((case for case in self.cases if case.status == "running"), None)

    @property
    def all_failed(self) -> bool:
        """Whether every case ended by an error of its own, which leaves nothing to tabulate.

        Running out of memory is none: there the grid is the result.
        """
        kinds = [case.failure and case.failure.kind for case in self.cases]
        return "error" in kinds and set(kinds) <= {"error", "killed", "skipped"}

    @property
    def cases_done(self) -> int:
        """Cases of which nothing more will come."""
        return sum(case.done for case in self.cases)

    def tally(self, case: CaseState) -> CardTally | None:
        """The card over a case up to now; None where its card is not known."""
        span = CaseSpan(case.measured, case.started_ns or 0, case.ended_ns)
        environment = case.environment or self.environment
        return tally_of(case.tally, self.cards, environment, span, final=True)

    def wall_ns(self, t: int) -> int | None:
        """Wall-clock nanoseconds of a monotonic time, by the segment that was being written."""
        anchor = next((s for s in reversed(self.segments) if s.t <= t), None)
        anchor = anchor or (self.segments[0] if self.segments else None)
        return None if anchor is None else anchor.wall_ns + (t - anchor.t)
