"""Tracked loops: one state a rank, made of what its files say."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from llmprof.core import events as ev
from llmprof.core.events.loop import LoopEvent
from llmprof.core.state.loop_columns import LoopColumns, LoopRows

MOST_RANKS = 65_536


@dataclass(frozen=True)
class LoopState:
    """All that is known of one rank's loop; replaced, never changed, when an event arrives."""

    started: ev.LoopStarted  # of its newest restart
    device: ev.LoopDevice | None = None
    beat: ev.LoopBeat | None = None
    done: ev.LoopDone | None = None
    rows: LoopRows = field(default_factory=LoopRows)
    restarts: tuple[tuple[int, int], ...] = ()  # restart, the row that it begins with
    steps: int = 0  # that have ended, restarts included
    last_t: int = 0  # when it was heard last
    first_t: int = 0

    @property
    def rank(self) -> int:
        """Its number in the group; 0 where it is alone."""
        return self.started.rank

    @property
    def step(self) -> int | None:
        """Index of the newest step that has ended."""
        return self.rows.last_index

    @property
    def epoch(self) -> int | None:
        """The epoch that it is in, counted from 0; None where epochs are not known."""
        if self.beat is not None and self.beat.epoch is not None:
            return self.beat.epoch
        return self.rows.epochs[-1][1] if self.rows.epochs else None

    @property
    def current(self) -> ev.LoopBeat | None:
        """In which part it is, as far as it was said since the newest step ended."""
        beat, end = self.beat, self.rows.end_ns
        if beat is None or self.done is not None or (end is not None and beat.t < end):
            return None
        return beat


class Loops:
    """The loops of a run while its events arrive."""

    def __init__(self) -> None:
        self._states: dict[int, LoopState] = {}
        self._columns: dict[int, LoopColumns] = {}
        self._stale: set[int] = set()

    def apply(self, event: LoopEvent) -> bool:
        """Take an event of a loop; False for one that says what cannot be."""
        rank = event.rank
        if isinstance(event, ev.LoopStarted):
            return self._start(event)
        state = self._states.get(rank)
        if state is None or event.restart > state.started.restart:
            return False
        if isinstance(event, ev.LoopSteps):
            if not self._columns[rank].extend(event):
                return False
            self._stale.add(rank)
        elif event.restart < state.started.restart:
            return True  # the last words of a process that was started anew
        elif isinstance(event, ev.LoopBeat):
            state = replace(state, beat=event)
        elif isinstance(event, ev.LoopDevice):
            state = replace(state, device=event)
        else:
            state = replace(state, done=event)
        self._states[rank] = replace(state, last_t=max(state.last_t, event.t))
        return True

    def view(self) -> tuple[LoopState, ...]:
        """The states so far, by rank."""
        for rank in self._stale:
            columns = self._columns[rank]
            self._states[rank] = replace(
                self._states[rank], rows=columns.view(), steps=columns.steps
            )
        self._stale.clear()
        return tuple(self._states[rank] for rank in sorted(self._states))

    @property
    def outcome(self) -> ev.Outcome | None:
        """How the loops ended; None while one has not."""
        done = [state.done for state in self._states.values()]
        said = {each.outcome for each in done if each is not None}
        if not done or None in done:
            return None
        worst: tuple[ev.Outcome, ...] = ("failed", "interrupted", "stopped")
        return next((outcome for outcome in worst if outcome in said), "complete")

    def _start(self, event: ev.LoopStarted) -> bool:
        before = self._states.get(event.rank)
        if before is not None and before.started.restart >= event.restart:
            return False
        if before is None and len(self._states) >= MOST_RANKS:
            return False
        columns = self._columns.setdefault(event.rank, LoopColumns())
        begun = (event.restart, len(columns.wall))
        self._states[event.rank] = LoopState(
            started=event,
            device=None if before is None else before.device,
            rows=columns.view(),
            steps=columns.steps,
            restarts=(*(() if before is None else before.restarts), begun),
            last_t=event.t,
            first_t=event.t if before is None else before.first_t,
        )
        return True
