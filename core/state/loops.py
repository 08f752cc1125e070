"""Tracked loops: one state a rank, made of what its files say."""

from __future__ import annotations

from dataclasses import dataclass, field

from llmprof.core import events as ev
from llmprof.core.events.loop import LoopEvent
from llmprof.core.state.loop_columns import LoopColumns, LoopRows

MOST_RANKS = 65_536
MOST_BEATS = 512  # that are kept of a rank: of more, every second one goes


@dataclass(frozen=True)
class LoopState:
    """All that is known of one rank's loop; replaced, never changed, when an event arrives."""

    started: ev.LoopStarted  # of its newest restart
    device: ev.LoopDevice | None = None
    beat: ev.LoopBeat | None = None
    beats: tuple[ev.LoopBeat, ...] = ()  # of its newest restart, thinned out where they are many
    out_of_memory: ev.LoopOutOfMemory | None = None  # the newest
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
        """Index of the newest step that has ended, as far as it was said."""
        last, beat = self.rows.last_index, self.beat
        if beat is None or not beat.index or (last is not None and beat.index <= last):
            return last
        return beat.index - 1

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


@dataclass(slots=True)
class _Rank:
    """What is known of a rank while its events arrive."""

    started: ev.LoopStarted
    first_t: int
    last_t: int
    columns: LoopColumns = field(default_factory=LoopColumns)
    restarts: tuple[tuple[int, int], ...] = ()
    device: ev.LoopDevice | None = None
    beat: ev.LoopBeat | None = None
    beats: list[ev.LoopBeat] = field(default_factory=list)
    every: int = 1  # of the beats one in so many is kept
    heard: int = 0
    out_of_memory: ev.LoopOutOfMemory | None = None
    done: ev.LoopDone | None = None
    shown: LoopState | None = None  # as nothing has come since

    def hear(self, beat: ev.LoopBeat) -> None:
        self.beat = beat
        if self.heard % self.every == 0:
            self.beats.append(beat)
        self.heard += 1
        if len(self.beats) >= MOST_BEATS:
            self.beats = self.beats[::2]
            self.every *= 2

    def view(self) -> LoopState:
        if self.shown is None:
            self.shown = LoopState(
                started=self.started,
                device=self.device,
                beat=self.beat,
                beats=tuple(self.beats),
                out_of_memory=self.out_of_memory,
                done=self.done,
                rows=self.columns.view(),
                restarts=self.restarts,
                steps=self.columns.steps,
                last_t=self.last_t,
                first_t=self.first_t,
            )
        return self.shown


class Loops:
    """The loops of a run while its events arrive."""

    def __init__(self) -> None:
        self._ranks: dict[int, _Rank] = {}

    def apply(self, event: LoopEvent) -> bool:
        """Take an event of a loop; False for one that says what cannot be."""
        if isinstance(event, ev.LoopStarted):
            return self._start(event)
        rank = self._ranks.get(event.rank)
        if rank is None or event.restart > rank.started.restart:
            return False
        if isinstance(event, ev.LoopSteps):
            if not rank.columns.extend(event):
                return False
            rank.first_t = min(rank.first_t, event.start_ns)  # the writer's first word comes later
        elif event.restart < rank.started.restart:
            return True  # the last words of a process that was started anew
        elif isinstance(event, ev.LoopBeat):
            rank.hear(event)
        elif isinstance(event, ev.LoopDevice):
            rank.device = event
        elif isinstance(event, ev.LoopOutOfMemory):
            rank.out_of_memory = event
        else:
            rank.done = event
            rank.columns.log_last(event.values)
        rank.last_t = max(rank.last_t, event.t)
        rank.shown = None
        return True

    def view(self) -> tuple[LoopState, ...]:
        """The states so far, by rank."""
        return tuple(self._ranks[rank].view() for rank in sorted(self._ranks))

    @property
    def outcome(self) -> ev.Outcome | None:
        """How the loops ended; None while one has not."""
        done = [rank.done for rank in self._ranks.values()]
        said = {each.outcome for each in done if each is not None}
        if not done or None in done:
            return None
        worst: tuple[ev.Outcome, ...] = ("failed", "interrupted", "stopped")
        return next((outcome for outcome in worst if outcome in said), "complete")

    def _start(self, event: ev.LoopStarted) -> bool:
        rank = self._ranks.get(event.rank)
        if rank is None:
            if len(self._ranks) >= MOST_RANKS:
                return False
            rank = self._ranks[event.rank] = _Rank(event, event.t, event.t)
        elif rank.started.restart >= event.restart:
            return False
        rank.started, rank.last_t, rank.shown = event, max(rank.last_t, event.t), None
        rank.beat = rank.done = rank.out_of_memory = None
        rank.beats, rank.every, rank.heard = [], 1, 0
        rank.restarts = (*rank.restarts, (event.restart, len(rank.columns.wall)))
        return True
