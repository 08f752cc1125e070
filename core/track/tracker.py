"""What the training thread does to be watched: marks in a list, one row a step."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from llmprof.core.track.parts import GAP, Mark, current

MOST_MARKS = 4096  # of a step; what comes later belongs to the last of them
MOST_ROWS = 8192  # that wait for the writer
MOST_STEPS = 2**39  # that are told of: half of what a journal can count
INTERRUPTED_NS = 1_000_000
COUNTED = 7  # our own time counts in one step of so many: reading the clock is a good part of it
BETWEEN = "between"
Stack = Sequence[tuple[object, int]]  # code and line of frames, the innermost first
_now = time.monotonic_ns
_ident = threading.get_ident


class Row:
    """A step that has ended: its marks, and when it did. Plain, for one is made every step."""

    __slots__ = ("device_ms", "end_ns", "epoch", "index", "marks", "values")

    def __init__(self, index: int, epoch: int | None, marks: list[Mark], end_ns: int) -> None:
        self.index = index
        self.epoch = epoch
        self.marks = marks
        self.end_ns = end_ns
        self.device_ms: list[float] | None = None  # of every mark's stretch; None: not known
        self.values: dict[str, float] = {}


class Place(NamedTuple):
    """Where in the training the open step is."""

    step: int
    epoch: int | None = None
    position: int | None = None  # in its epoch
    length: int | None = None  # of its epoch


class LeftStep(NamedTuple):
    """A step whose loop was left in its midst: whole by `break`, none by an exception."""

    row: Row
    end: object | None  # the device's event
    at: Stack  # where the loop stands
    error: int  # identity of what a prompt had met until then


class DeviceClock(Protocol):
    """Times the same stretches by a device's clock, without waiting for it while the loop goes."""

    timed: bool  # whether events are recorded in the open step

    def event(self) -> object | None:
        """An event at this point of the current stream; None where none is recorded."""

    def boundary(self) -> object | None:
        """The same where one step ends and the next begins."""

    def keep(self, row: Row, end: object | None, values: dict[str, object]) -> None:
        """Take a row that ended with an event; rows are handed on once the device is there."""

    def finish(self) -> None:
        """Hand on all rows, also those that the device is not through with."""


class Tracker:
    """The state of one loop on the thread that trains. Nothing in here raises or waits.

    Marks come from hooks and from the user's lines; calls of other threads are left out.
    """

    def __init__(self, first_step: int = 0) -> None:
        self.rows: deque[Row] = deque()
        self.dropped = 0
        self.own_ns = 0  # spent in here in the steps that are counted, by the hooks' own timers
        self.own_steps = 1  # that are counted
        self.calls = 0  # of hooks
        self.steps = 0
        self.updates = 0  # of optimizers
        self.updates_skipped: int | None = 0
        self._place: tuple[int, int | None, int | None, int | None] = first_step, None, None, None
        self.problem = ""  # what ended the tracking
        self.last_values: dict[str, float] = {}  # logged after the last step
        self.device: DeviceClock | None = None
        self.find_device: Callable[[], DeviceClock | None] | None = None
        self.working = True
        self.marks: list[Mark] = [(_now(), BETWEEN, None)]
        self._owner = _ident()
        self._part = BETWEEN
        self._counting = True  # our own time in this step
        self._open = False  # within a step
        self._user = 0  # depth of the user's phases
        self._updating = 0  # depth of optimizers
        self._before_update = GAP
        self._index = first_step
        self._epoch: int | None = None
        self._position = 0
        self._length: int | None = None
        self._held: LeftStep | None = None  # a step whose loop was left in its midst
        self._values: dict[str, object] = {}
        self._late: Row | None = None  # no step, but what was logged after the last
        # Of an exception that a loader raised, or torch.save: its identity, the step, the part.
        self._raised: tuple[int, object, str] = 0, None, ""
        self.left: tuple[Stack, str] | None = None  # where a step was left in its midst, its part
        self._left_at = 0  # calls by then

    def begin(self) -> None:
        """Time counts from now, on this thread."""
        self._owner = _ident()
        self.marks = [(_now(), BETWEEN, None)]

    # What the hooks say

    def enter(self, part: str) -> str | None:
        """A backward begins, or the like; gives what leave() wants, None where it is not marked."""
        if not self._open or self._user or _ident() != self._owner or not self.working:
            return None
        start = _now()
        before = self._part
        if before not in (GAP, "loss", "forward") or (before == part):
            self._spent(start)
            return None
        self._marked(part, start)
        return before

    def leave(self, before: str | None) -> None:
        """It ended."""
        if before is None or not self._open or _ident() != self._owner or not self.working:
            return
        start = _now()
        self._marked(GAP if before == "loss" else before, start)

    def forward_ended(self, before: str | None) -> None:
        """The model's forward ended: what follows is the loss."""
        if before is not None and self._open and self.mine():
            start = _now()
            self._marked("loss", start)

    def update_begins(self, optimizer: object) -> int:
        """An optimizer's step begins, perhaps within another's; how deep."""
        if _ident() != self._owner or not self.working:
            return 0
        start = _now()
        if self._part != "optimizer":
            self._updating = 0  # an exception ended one before
        if self._updating == 0 and self._part in (GAP, "loss") and self._open and not self._user:
            self._mark("optimizer", start)
        self._updating += 1
        self._spent(start)
        return self._updating - 1

    def update_ended(self, depth: int | None = None, *, whole: bool = True) -> None:
        """An optimizer's step ended; not whole by an exception, which ended those within too."""
        if _ident() != self._owner or not self.working:
            return
        start = _now()
        self._updating = max(0, self._updating - 1) if depth is None else depth
        if self._updating == 0:
            self.updates += whole
            if self._part == "optimizer" and not self._user:
                self._marked(GAP, start)
                return
        self._spent(start)

    def update_skipped(self, optimizer: object) -> None:
        """A GradScaler left an update out, for gradients that were not finite."""
        if self.updates_skipped is not None:
            self.updates_skipped += 1

    def closure_begins(self) -> bool:
        """An optimizer calls its closure: a forward and a backward; whether it is marked."""
        if self._part != "optimizer" or self._user or not self.mine():
            return False
        start = _now()
        self._marked(GAP, start)
        return True

    def closure_ended(self, marked: bool) -> None:
        """The closure ended: the optimizer goes on."""
        if marked and self._open and not self._user and self.mine():
            start = _now()
            self._marked("optimizer", start)

    # What the user's lines say

    def begin_input(self) -> None:
        """The thread waits for a batch, which begins a step; an open one ends."""
        if _ident() != self._owner or not self.working:
            return
        start = _now()
        if self._held is not None:
            self._release()
        if self._open:
            self._end(start, "input")
            self._spent(start)
        else:
            self._marked("input", start)

    def begin_epoch(self, length: int | None) -> None:
        """A loop over a loader begins."""
        if self.mine():
            self._epoch = 0 if self._epoch is None else self._epoch + 1
            self._position, self._length = 0, length

    def end_input(self, *, batch: bool) -> None:
        """The batch is there, and the step's body begins; without one an epoch is over."""
        if _ident() != self._owner or not self.working:
            return
        start = _now()
        if batch:
            self._begin(start)
            self._spent(start)
        else:
            self._marked(BETWEEN, start)

    def begin_step(self) -> None:
        """A step begins without a loader that is known; an open one ends."""
        if not self.mine():
            return
        start = _now()
        self._release()
        if self._open:
            self._end(start)
        self._begin(start)
        self._spent(start)

    def end_step(self, *, whole: bool = True, at: Stack = ()) -> None:
        """The step ends; one that is not whole, as after an exception at a place, is no step."""
        if not self._open or not self.mine():
            return
        start = _now()
        if whole:
            self._end(start)
        else:
            self.broke(at, self.ended_in())
            self._drop(start)
        self._spent(start)
        if not whole:
            self._left_at = self.calls

    def left_loop(self, at: Stack = ()) -> None:
        """The loop over a loader was left in mid-step, by `break` or by an exception."""
        if self._open and self.mine():
            now = _now()
            self.broke(at, self.ended_in())
            row = Row(self._index, self._epoch, self.marks, now)
            self._held = LeftStep(row, self._after(now), at, id(_met_at_prompt()))
            self._spent(now)
            self._left_at = self.calls

    def broke(self, at: Stack, part: str) -> None:
        """An exception may have left a part; of one that leaves several the first part counts."""
        if self.left is None or self._left_at != self.calls:
            self.left = at, part
        self._left_at = self.calls

    def begin_phase(self, name: str) -> str | None:
        """A phase of the user's own begins; gives what end_phase() wants."""
        if not self.mine():
            return None
        start = _now()
        before = self._part
        self._user += 1
        self._marked(name, start)
        return before

    def end_phase(self, before: str | None) -> None:
        """It ended."""
        if before is None or not self.mine():
            return
        start = _now()
        self._user = max(0, self._user - 1)
        self._marked(before if self._open or before != GAP else BETWEEN, start)

    def raised(self, error: BaseException) -> None:
        """A loader raises an exception, or torch.save: in the part that goes on."""
        if isinstance(error, StopIteration):  # which ends an epoch
            return
        if not self.raised_in(error) and self.mine():
            self._raised = id(error), self._place, self.ended_in()

    def raised_in(self, error: BaseException | None) -> str:
        """The part that such an exception was raised in; "" of any other."""
        known, place, part = self._raised
        return part if known == id(error) and place is self._place else ""

    def log(self, values: dict[str, object], start_ns: int) -> None:
        """Values of the open step, or of the next where none is open; read from start_ns on.

        On the thread that trains, as who calls has seen.
        """
        self._values.update(values)
        self._spent(start_ns)

    def finish(self, *, whole: bool) -> str:
        """The loop is over; the part in which it ended. A step in which it broke is none."""
        part = self.ended_in()
        if not self.mine():
            return part
        now = _now()
        if whole:
            self._release()
            if self._open:
                self._end(now)
        elif self._held is not None:
            self._held, self._values = None, {}
        if self.steps and not self._open and self._values:
            self._late = Row(self._index, self._epoch, self.marks, now)
            self._hand_on(self._late, None)
        if self.device is not None:
            self.device.finish()
        self.working = False
        return part

    def ended_in(self) -> str:
        """The part that it is in, as it ends."""
        return current([part for _, part, _ in self.marks])

    def abandon(self) -> None:
        """A forked child: nothing that it does is of this loop."""
        self.working = False

    def fail(self, error: BaseException) -> None:
        """Something in here went wrong: the training goes on without it."""
        self.problem = self.problem or f"{type(error).__name__}: {error}"
        self.working = False

    @property
    def thread(self) -> int:
        """Identity of the thread that trains."""
        return self._owner

    @property
    def place(self) -> Place:
        """Where the step is that began last."""
        return Place(*self._place)

    def mine(self) -> bool:
        """Whether this is the thread that trains, and it is watched still.

        What is called in every step asks so itself: after a step even a call is costly.
        """
        return self.working and _ident() == self._owner

    def own_us(self, call_us: float) -> float:
        """Our own host time a step: the hooks' timers, and calls that take so much each."""
        return self.own_ns / 1000 / self.own_steps + self.calls * call_us / max(1, self.steps)

    def take(self, row: Row) -> None:
        """Hand a row to the writer, unless too many wait."""
        if row is self._late:
            self.last_values = row.values
        elif len(self.rows) >= MOST_ROWS:
            self.dropped += 1
        else:
            self.rows.append(row)

    def _marked(self, part: str, start: int) -> None:
        """A mark, which is all that there was to do; written out for the same reason."""
        self._part = part
        if len(self.marks) < MOST_MARKS:
            device = self.device
            event = device.event() if device is not None and device.timed else None
            self.marks.append((start, part, event))
        if self._counting:
            self._count(start)
        self.calls += 1

    def _mark(self, part: str, t: int) -> None:
        self._part = part
        if len(self.marks) < MOST_MARKS:
            device = self.device
            event = device.event() if device is not None and device.timed else None
            self.marks.append((t, part, event))

    def _spent(self, start: int) -> None:
        if self._counting:
            self._count(start)
        self.calls += 1

    def _count(self, start: int) -> None:
        took = _now() - start
        if took < INTERRUPTED_NS:  # else another process had the core
            self.own_ns += took

    def _begin(self, t: int) -> None:
        self._open = True
        self._user = self._updating = 0
        if self.device is None and self.find_device is not None:
            self.device = self.find_device()
        self._mark(GAP, t)
        self._place = self._index, self._epoch, self._position, self._length

    def _end(self, t: int, then: str = BETWEEN) -> None:
        row = Row(self._index, self._epoch, self.marks, t)
        self._hand_on(row, self._after(t, then))

    def _after(self, end_ns: int, then: str = BETWEEN) -> object:
        """The next step's marks begin where this one ended; the device's event there."""
        self._open = False
        self._next_step()
        event = None if self.device is None else self.device.boundary()
        self._part = then
        self.marks = [(end_ns, then, event)]  # never empty: the writer looks at the last
        return event

    def _next_step(self) -> None:
        self.steps += 1
        self._position += 1
        self._index += 1
        self._counting = self.steps % COUNTED == 0
        self.own_steps += self._counting

    def _hand_on(self, row: Row, end: object) -> None:
        values, self._values = self._values, {}
        if self.device is not None:
            self.device.keep(row, end, values)
            return
        for name, value in values.items():
            if isinstance(value, float):
                row.values[name] = value
        self.take(row)

    def _release(self) -> None:
        """The loop that was left goes on or ended well: its last step was one."""
        held, self._held = self._held, None
        if held is None:
            return
        if _broke_at_prompt(held):
            self._values = {}
            self.steps, self._index = self.steps - 1, self._index - 1
            begun = held.row.marks[0]
            self.marks[0] = begun[0], BETWEEN, begun[2]
        else:
            self._hand_on(held.row, held.end)

    def _drop(self, t: int) -> None:
        """The open step is none: its time lies between steps."""
        begun = self.marks[0]
        self._open = False
        self._values = {}
        self.marks = [(begun[0], BETWEEN, begun[2])]
        self._part = BETWEEN


def _met_at_prompt() -> BaseException | None:
    """The error that ended a line or cell last: an interactive Python keeps it there."""
    error: BaseException | None = getattr(sys, "last_value", None)
    return error


def _broke_at_prompt(held: LeftStep) -> bool:
    """Whether an error that a prompt has met since then came from the code of the loop."""
    error = _met_at_prompt()
    trace = None if error is None or id(error) == held.error else error.__traceback__
    while trace is not None:
        if held.at and trace.tb_frame.f_code is held.at[0][0]:
            return True
        trace = trace.tb_next
    return False


def say(line: str) -> None:
    """A line on standard error, where that can be written."""
    try:
        sys.stderr.write(f"llmprof: {line}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass
