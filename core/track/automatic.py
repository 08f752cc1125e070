"""A tracker that finds the steps of a training by itself: each ends where an update ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from llmprof.core.events.loop import EVALUATION
from llmprof.core.track.parts import GAP
from llmprof.core.track.tracker import BETWEEN, MOST_MARKS, Row, Tracker

AFTER = "after"
BUSY = frozenset({"backward", "optimizer"})  # within them nothing else is marked
_now = time.monotonic_ns


class AutomaticTracker(Tracker):
    """Steps without the user's lines.

    A step ends with an optimizer's update: of several optimizers, with the one whose update is the
    last before the first of them has its turn again. Batches of the loader that a backward follows
    are waited for as input; other loaders' are an evaluation. What lies between an update and the
    next batch counts as after the update, at the beginning of the step that follows.
    """

    def __init__(self, on_training: Callable[[], bool]) -> None:
        super().__init__()
        self.loaders_seen = False  # whether any batch of the training came from a DataLoader
        self._on_training = on_training  # called at the first backward; whether to go on
        self._begun = False
        self._open = True
        self._optimizer = 0  # whose update goes on, or was the last
        self._stepped: set[int] = set()  # optimizers, in this step
        self._closer: int | None = None  # the optimizer whose update ends a step
        self._update_at = 0  # the mark that follows the last update of this step
        self._within_backward = False  # an update, by a hook on a gradient
        self._training: frozenset[int] = frozenset()  # loaders
        self._nexts: list[tuple[int, int]] = []  # mark, loader, in this step
        self._yielded: list[int] = []  # loaders, since the last backward
        self._lengths: dict[int, int | None] = {}  # of loaders that were begun, in batches
        self._primary = 0  # the training loader whose beginning is an epoch's
        self._batches = 0  # of the primary one, in this step
        self._epoch_batches: int | None = None

    def begin(self) -> None:
        """The marks so far stay: the first batch was waited for before the first backward."""

    # What the hooks say

    def enter(self, part: str) -> str | None:
        """A backward begins; the first begins the tracking."""
        if self._user or self._part in BUSY or not self._ready():
            return None
        start = _now()
        if self._yielded:
            self._learn()
        elif not self._nexts:  # batches come in another way than by this thread's next()
            for at, mark in enumerate(self.marks):
                if mark[1] == AFTER:
                    self._rename(at, GAP)
        if self._part == BETWEEN and self._nexts:  # the last batch, which was fetched ahead
            self._rename(len(self.marks) - 1, GAP)
        self._mark(part, start)
        if self.marks[0][1] == BETWEEN and not self.steps:
            self.marks = self.marks[-1:]  # what came before is not known to be a step's
        self._spent(start)
        return GAP

    def leave(self, before: str | None) -> None:
        """It ended, and with it the updates that were made within it."""
        super().leave(before)
        if before is not None and self._within_backward:
            self._within_backward = False
            self._turn_of(None)
            self._update_done()

    def update_begins(self, optimizer: object) -> int:
        """An optimizer's step begins; one that has had its turn in this step ends it first."""
        if self._part == "backward":
            return 0
        outermost = self._part != "optimizer" or not self._updating
        if outermost and not self._user and self._ready():
            self._turn_of(optimizer)
            if self._yielded and all(part != "backward" for _, part, _ in self.marks):
                self._learn()  # its closure has the backward
            if self._part not in (GAP, "optimizer"):
                self._mark(GAP, _now())
        return super().update_begins(optimizer)

    def update_ended(self, depth: int | None = None, *, whole: bool = True) -> None:
        """An optimizer's step ended, and with it perhaps the training's."""
        if self._part == "backward":
            self._within_backward = True
            return
        super().update_ended(depth, whole=whole)
        if whole and not self._updating and not self._user and self.mine() and self._begun:
            self._update_done()

    def update_skipped(self, optimizer: object) -> None:
        """A GradScaler left an update out: the step ends all the same."""
        super().update_skipped(optimizer)
        if not self._user and self._ready():
            self._turn_of(optimizer)
            self._mark(GAP, _now())
            self._update_done()

    def iter_begins(self, loader: int, length: int | None) -> bool:
        """A pass over a loader begins: its workers are started, which is waited for."""
        if not self._may_wait():
            return False
        if loader == self._primary:
            self._begin_epoch(length)
        else:
            self._lengths[loader] = length
        return self._wait(loader)

    def next_begins(self, loader: int) -> bool:
        """The thread waits for a batch; whether it is marked."""
        if not self._may_wait():
            return False
        if self._part == EVALUATION and self._nexts and self._nexts[-1][1] == loader:
            return False  # it goes on
        return self._wait(loader)

    def batch_came(self, loader: int) -> None:
        """The training thread has a batch of a loader."""
        if self._may_wait():
            if len(self._yielded) < MOST_MARKS:
                self._yielded.append(loader)
            self._batches += loader == self._primary

    def next_ended(self, marked: bool, *, batch: bool) -> None:
        """The batch is there, or the loader is at its end."""
        if marked and self.mine():
            start = _now()
            then = GAP if batch else BETWEEN
            self._mark(EVALUATION if self._part == EVALUATION and batch else then, start)
            self._spent(start)

    def begin_aside(self, name: str) -> str | None:
        """A part of its own begins, unless it is within another; gives what end_phase() wants."""
        if self._user or self._part in BUSY or not self._begun:
            return None
        return self.begin_phase(name)

    def finish(self, *, whole: bool) -> str:
        """The training is over; what came after its last update is no step."""
        part = self.ended_in()
        if self.mine() and self._update_at:
            self._split(self._update_at)
        self._open = False
        super().finish(whole=whole)
        return part

    def _ready(self) -> bool:
        """Whether this is the thread that trains, which it becomes by the first backward."""
        if not self._begun and self.working:
            self._begun = True
            self._owner = threading.get_ident()
            if not self._on_training():
                self.working = False
        return self.mine()

    def _may_wait(self) -> bool:
        return not self._user and self._part not in BUSY and self.mine()

    def _wait(self, loader: int) -> bool:
        start = _now()
        known = not self._training or loader in self._training
        if len(self.marks) < MOST_MARKS:
            self._nexts.append((len(self.marks), loader))
        self._mark("input" if known else EVALUATION, start)
        self._spent(start)
        return True

    def _learn(self) -> None:
        """A backward follows: the loaders of the batches before it are those of the training."""
        group = _turns(self._yielded)
        self._yielded.clear()
        known = group & self._training
        if known:
            if known != self._training:  # one of them was an evaluation's
                self._training = known
            return
        first = not self.steps
        self._training, self._primary = group, self._nexts[-1][1] if self._nexts else 0
        self.loaders_seen = True
        if self._primary in self._lengths:
            self._begin_epoch(self._lengths.pop(self._primary))
        ours = [at for at, loader in self._nexts if loader in group]
        for at in ours:
            self._rename(at, "input")
            self._rename(at + 1, GAP)
        if first and ours:  # what came before is no step's: building, a check of the evaluation
            at = _run_begins(self._nexts, group)
            self.marks = self.marks[at:]
            self._nexts = [(mark - at, loader) for mark, loader in self._nexts if mark >= at]

    def _rename(self, at: int, part: str) -> None:
        if at < len(self.marks):
            t, _, event = self.marks[at]
            self.marks[at] = t, part, event

    def _begin_epoch(self, length: int | None) -> None:
        self._epoch = 0 if self._epoch is None else self._epoch + 1
        self._position, self._epoch_batches = 0, length

    def _turn_of(self, optimizer: object | None) -> None:
        """Note whose update begins; where it has had its turn, the step ended with the last one."""
        if id(optimizer) in self._stepped and self._update_at:
            self._closer = self._optimizer
            self._split(self._update_at)
        self._optimizer = id(optimizer)

    def _update_done(self) -> None:
        self._stepped.add(self._optimizer)
        if self._optimizer == self._closer:
            start = _now()
            self._count_batches()
            self._end(start, self._then)
            self._open_next()
            self._ended(start)
        else:
            self._update_at = len(self.marks) - 1

    def _split(self, at: int) -> None:
        """End the step at a mark that lies back; what came since belongs to the next one."""
        start, rest = _now(), self.marks[at:]
        t, _, event = rest[0]
        row = Row(self._index, self._epoch, self.marks[:at], t)
        self._next_step()
        self._count_batches()
        rest[0] = t, self._then, event
        self.marks = rest
        self._hand_on(row, event)
        nexts = [(mark - at, loader) for mark, loader in self._nexts if mark >= at]
        self._open_next()
        self._nexts = nexts
        self._ended(start)

    def _ended(self, start: int) -> None:
        """A step was ended within a call that is counted for itself."""
        if self._counting:
            self._count(start)

    def _open_next(self) -> None:
        """The next step begins where this one ended."""
        self._open = True
        self._update_at = 0
        self._stepped.clear()
        self._nexts.clear()
        if self.device is None and self.find_device is not None:
            self.device = self.find_device()
        self._place = self._index, self._epoch, self._position, self._length

    def _count_batches(self) -> None:
        """Steps of an epoch: its batches, of which a step takes as many as the last one did."""
        length, a_step = self._epoch_batches, self._batches
        if a_step:
            self._length = None if length is None else max(1, length // a_step)
        self._batches = 0

    @property
    def _then(self) -> str:
        """What follows an update: with a loader known, the rest of the loop's body."""
        return AFTER if self._training else GAP


def _turns(yielded: list[int]) -> frozenset[int]:
    """The loaders of the newest batches that had one turn each, as those that are zipped have."""
    group: list[int] = []
    for loader in reversed(yielded):
        if loader in group:
            break
        group.append(loader)
    again = set(yielded[: len(yielded) - len(group)])
    alone = [loader for loader in group if loader not in again]
    return frozenset(alone or group[:1])


def _run_begins(nexts: list[tuple[int, int]], group: frozenset[int]) -> int:
    """The mark of the first wait of the newest that were all for loaders of the group."""
    at = nexts[-1][0]
    for mark, loader in reversed(nexts):
        if loader not in group:
            break
        at = mark
    return at
