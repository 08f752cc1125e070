"""The one reducer: events in, frozen state of a run out. Screen, exports and tests read this."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import cast

import msgspec

from llmprof.core import events as ev
from llmprof.core.events.loop import LoopEvent
from llmprof.core.spec.axes import BY_FIELD
from llmprof.core.spec.case import PHASES, Phase
from llmprof.core.state.card_tally import CaseSpan, tally_of
from llmprof.core.state.histories import CardHistory, Series
from llmprof.core.state.loops import Loops
from llmprof.core.state.open_cases import OpenCases
from llmprof.core.state.step_columns import StepColumns
from llmprof.core.state.view import CaseState, CaseStatus, RunView

__all__ = ["CaseState", "CaseStatus", "Reducer", "RunView", "phase_index"]

LOG_LINES = 200


class Reducer:
    """Applies events in order; view() is cheap and may be called at any time.

    Not thread-safe: one thread applies and publishes views, which are safe everywhere.
    """

    def __init__(self) -> None:
        self._view = RunView()
        self._environment: ev.Environment | None = None
        self._cases: list[CaseState] = []
        self._columns: dict[int, tuple[StepColumns, StepColumns]] = {}
        self._log: deque[ev.Log] = deque(maxlen=LOG_LINES)
        self._host_cpu = Series()
        self._host_memory = Series()
        self._cards: dict[int, CardHistory] = {}
        self._last_sample: tuple[ev.DeviceSample, tuple[ev.CardSample, ...]] | None = None
        self._stale: set[int] = set()
        self._earlier: dict[int, tuple[CaseState, tuple[StepColumns, StepColumns]]] = {}  # attempts
        self._open = OpenCases()
        self._loops = Loops()
        self._count = 0
        self._unknown = 0
        self._damaged = 0
        self._last_t = 0

    def skip(self, *, unknown: bool) -> None:
        """Count a line that is not an event of this version (unknown) or of any (damaged)."""
        if unknown:
            self._unknown += 1
        else:
            self._damaged += 1

    def apply(self, event: ev.AnyEvent) -> None:
        """Take one event into the state. Events about cases that do not exist are counted."""
        self._count += 1
        self._last_t = event.t
        case_index = getattr(event, "case", None)
        if case_index is not None and not 0 <= case_index < len(self._cases):
            self.skip(unknown=False)
            return
        match event:
            case ev.StepDone():
                if not self._add_steps(event.case, warmup=event.warmup, steps=(event,)):
                    self.skip(unknown=False)  # twice, out of order, or of another shape
            case ev.DeviceSample():
                self._sample(event)
            case ev.Log():
                self._log.append(event)
            case (
                ev.LoopSteps()
                | ev.LoopBeat()
                | ev.LoopStarted()
                | ev.LoopDevice()
                | ev.LoopOutOfMemory()
                | ev.LoopDone()
            ):
                self._loop_event(event)
            case ev.Segment():
                self._segment(event)
            case ev.RunStarted():
                self._plan(event)
            case ev.Environment():
                self._look(event)
            case ev.RunDone():
                self._view = replace(self._view, outcome=event.outcome)
            case _:
                self._case_event(event)

    def extend(self, events: Iterable[ev.AnyEvent]) -> None:
        """Take events in order; the same as apply() for each, and sooner where steps follow."""
        for kind, group in groupby(events, type):
            if kind is ev.StepDone:
                self._extend_steps(cast("Iterable[ev.StepDone]", group))
            else:
                for event in group:
                    self.apply(event)

    def _extend_steps(self, events: Iterable[ev.StepDone]) -> None:
        for (case, warmup), group in groupby(events, attrgetter("case", "warmup")):
            steps = list(group)
            if case in self._columns and self._add_steps(case, warmup=warmup, steps=steps):
                self._count += len(steps)
                self._last_t = steps[-1].t
            else:
                for step in steps:
                    self.apply(step)

    def view(self) -> RunView:
        """The state of the run, frozen."""
        for index in tuple(self._stale):
            self._refresh(index)
        if self._last_sample is not None:
            event, cards = self._last_sample
            sample = msgspec.structs.replace(event, cards=cards)
            self._view = replace(self._view, last_sample=sample)
            self._last_sample = None
        return replace(
            self._view,
            cases=tuple(self._cases),
            loops=self._loops.view(),
            host_cpu=self._host_cpu.view(),
            host_memory=self._host_memory.view(),
            cards={index: card.view() for index, card in self._cards.items()},
            log=tuple(self._log),
            last_t=self._last_t,
            events=self._count,
            unknown_events=self._unknown,
            damaged_lines=self._damaged,
        )

    def _refresh(self, index: int) -> None:
        """Bring the steps of a case's state up to date."""
        warmup, measured = self._columns[index]
        self._change(index, warmup=warmup.view(), measured=measured.view())
        self._stale.discard(index)

    def _plan(self, event: ev.RunStarted) -> None:
        self._view = replace(
            self._view, run_id=event.run_id, experiment=event.experiment, command=event.command
        )
        self._cases = [CaseState(index, case) for index, case in enumerate(event.cases)]
        self._columns = {index: (StepColumns(), StepColumns()) for index in range(len(event.cases))}

    def _loop_event(self, event: LoopEvent) -> None:
        if not self._loops.apply(event):
            self.skip(unknown=False)
        elif isinstance(event, ev.LoopStarted):
            self._view = replace(
                self._view, run_id=event.run_id, command=event.command, outcome=None
            )
        elif isinstance(event, ev.LoopDone):
            self._view = replace(self._view, outcome=self._loops.outcome)

    def _look(self, event: ev.Environment) -> None:
        """The run's environment is the first that a case ran in."""
        self._environment = event
        if not any(state.attempt for state in self._cases):
            self._view = replace(self._view, environment=event)

    def _segment(self, event: ev.Segment) -> None:
        self._tally(self._open.close())
        before = self._view.segments[-1].boot_id if self._view.segments else event.boot_id
        if event.boot_id != before:  # on another clock, perhaps of another machine
            self._cards.clear()
            self._host_cpu, self._host_memory = Series(), Series()
        self._view = replace(self._view, segments=(*self._view.segments, event), outcome=None)
        for index, state in enumerate(self._cases):
            if state.status == "running":  # its engine died with it
                self._cases[index] = replace(state, status="pending")
                self._restore(index)

    def _case_event(self, event: ev.AnyEvent) -> None:
        match event:
            case ev.CaseStarted():
                self._start(event)
            case ev.Planned():
                self._change(event.case, estimate_s=event.estimate_s)
            case ev.ModelBuilt():
                self._change(event.case, model=event)
                self._name_optimizer(event)
            case ev.Observed():
                self._change(event.case, observed=event)
            case ev.Predicted():
                self._change(event.case, predicted=event)
            case ev.MemoryTimeline():
                self._change(event.case, memory_timeline=event)
            case ev.MemoryAtFailure():
                self._change(event.case, at_failure=event)
            case ev.MemoryStep():
                self._change(event.case, memory=event)
            case ev.KernelTable():
                self._change(event.case, kernels=event)
            case ev.TimelineFacts():
                self._change(event.case, timeline=event)
            case ev.AttentionLens():
                self._change(event.case, lens=event)
            case ev.Calibrated():
                self._change(event.case, ceilings=event.ceilings)
            case ev.Parked():
                pass
            case ev.CaseFailed():
                self._open.end(event.case, event.t)
                self._change(
                    event.case, status=event.failure.kind, failure=event.failure, ended_ns=event.t
                )
                if event.failure.outside:
                    self._restore(event.case)
            case ev.CaseDone():
                self._open.end(event.case, event.t)
                self._change(event.case, status="ok", ended_ns=event.t)
                self._earlier.pop(event.case, None)
            case _:
                self.skip(unknown=True)

    def _name_optimizer(self, event: ev.ModelBuilt) -> None:
        """Of all cases of a model alike: a mode without an update makes no optimizer to look at."""
        if not event.optimizer:
            return
        for index, state in enumerate(self._cases):
            known = event.optimizer == ev.ITS_OWN and state.own_optimizer
            asked = state.case.optimizer != BY_FIELD["optimizer"].neutral  # and was refused
            if state.case.model == self._cases[event.case].case.model and not known and not asked:
                self._change(index, own_optimizer=event.optimizer)

    def _change(self, index: int, **changes: object) -> None:
        self._cases[index] = replace(self._cases[index], **changes)  # type: ignore[arg-type]

    def _start(self, event: ev.CaseStarted) -> None:
        old = self._cases[event.case]
        self._keep(event.case)
        self._open.begin(event.case)
        self._columns[event.case] = (StepColumns(), StepColumns())
        self._stale.discard(event.case)
        self._cases[event.case] = CaseState(
            old.index,
            old.case,
            status="running",
            attempt=old.attempt + 1,
            started_ns=event.t,
            estimate_s=old.estimate_s,
            own_optimizer=old.own_optimizer,
            predicted=old.predicted,
            environment=self._environment,
        )

    def _keep(self, index: int) -> None:
        """Keep what an attempt that was cut off had measured, until a later one has more."""
        self._refresh(index)
        state, held = self._cases[index], self._earlier.get(index)
        if len(state.measured) > (0 if held is None else len(held[0].measured)):
            self._earlier[index] = state, self._columns[index]

    def _restore(self, index: int) -> None:
        """A later attempt was cut off sooner than an earlier one, whose figures stay."""
        state, held = self._cases[index], self._earlier.get(index)
        if held is None or len(self._columns[index][1].view()) >= len(held[0].measured):
            return
        earlier, self._columns[index] = held
        self._cases[index] = replace(
            earlier, status=state.status, failure=state.failure, attempt=state.attempt
        )
        self._stale.discard(index)

    def _add_steps(self, case: int, *, warmup: bool, steps: Sequence[ev.StepDone]) -> bool:
        """Take steps of one case; False, and none is taken, where they do not go on with it."""
        columns = self._columns[case][0 if warmup else 1]
        if not columns.continued_by(steps):
            return False
        columns.extend(steps)
        self._stale.add(case)
        bad = sum(step.loss_reason is not None for step in steps)
        if bad:
            self._change(case, bad_losses=self._cases[case].bad_losses + bad)
        return True

    def _sample(self, event: ev.DeviceSample) -> None:
        self._host_cpu.append(event.t, event.host.cpu_percent)
        self._host_memory.append(event.t, event.host.memory_used_bytes)
        known = []
        for card in event.cards:
            history = self._cards.setdefault(card.index, CardHistory())
            history.append(event.t, card)
            known.append(history.last or card)
        self._last_sample = event, tuple(known)
        self._tally(self._open.sample(event.t))

    def _tally(self, due: dict[int, bool]) -> None:
        """Take the readings of cards into cases, of some for the last time."""
        if not due:
            return
        cards = {index: card.view() for index, card in self._cards.items()}
        for index, final in due.items():
            self._refresh(index)
            state = self._cases[index]
            span = CaseSpan(state.measured, state.started_ns or 0, state.ended_ns)
            tally = tally_of(state.tally, cards, state.environment, span, final=final)
            self._change(index, tally=tally)


def phase_index(phase: Phase) -> int:
    """Position of a phase in the tuples of StepDone."""
    return PHASES.index(phase)
