"""The card's own times of the same stretches: events that are read when the card is through.

Nothing in here waits for the card while the loop goes on, and nothing is recorded, asked for or
copied while a graph is being captured.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from llmprof.core import events as ev
from llmprof.core.system.text import clean
from llmprof.core.track.allocator import AllocatorFigures
from llmprof.core.track.card_numbers import (
    MOST_TOGETHER,
    TOGETHER_NS,
    CardNumbers,
    Costs,
    Fetched,
    Held,
    Landing,
)
from llmprof.core.track.tracker import COUNTED, Row, Tracker

MOST_WAITING = 512 + MOST_TOGETHER  # steps that the card has not come to, or whose numbers it keeps
MOST_PASSED = 15  # steps in a row whose rows are kept and not looked at, and
PASSED_NS = TOGETHER_NS  # how long they may take
MOST_HANDED_ON = 24  # at the end of a step, so that none pays for all that came together: more than
# come between two looks, or what has waited for a card that was behind would never grow less
MOST_EVENTS = 48  # of one step
ALLOWED_NS = 20_000  # of host time a step for the card's times and numbers, and
ALLOWED_SHARE = 400  # at most one in so many of the step's; where they cost more, some are timed
MOST_SKIPPED = 32
PATIENCE_NS = 20_000_000  # for the last numbers, when the loop is over
PCI = ("domain", "bus", "device")
_in_use: Callable[[], bool] = torch.cuda.is_initialized
MEMORY_NS = 1_000_000_000  # between two looks at the allocator


# A row, the event at its end, the values logged in it, and the time spent on recording its events,
# which is 0 where it was not timed. Plain, for one is made every step.
Kept = tuple[Row, object | None, dict[str, object], int]

_new_event: Any = torch.cuda.Event
_Tensor = torch.Tensor
_device_now: Any = getattr(torch._C, "_cuda_getDevice", None)  # in a tenth of the time that
_stream_now: Any = getattr(torch._C, "_cuda_getCurrentStream", None)  # current_stream() takes
_now = time.monotonic_ns


def allowed_ns(wall_ns: int) -> int:
    """Of host time in a step of such a length."""
    return max(1, min(ALLOWED_NS, wall_ns // ALLOWED_SHARE))


class Pace:
    """Of how many steps one is timed, so that it costs what is allowed on average."""

    def __init__(self) -> None:
        self.every = 1
        self._costs = Costs()

    def timed(self, cost_ns: int, allowed_ns: int) -> None:
        """A step was timed, which cost so much in all."""
        self._costs.add(cost_ns)
        cost = self._costs.median_ns
        if cost is not None:
            every = min(MOST_SKIPPED, max(1, -(-cost // allowed_ns)))
            # Of steps in which our own time counts all would be timed, or none.
            self.every = every + (every % COUNTED == 0)


class Delivery:
    """Numbers that have arrived once some events are reached; rows of several steps share one."""

    def __init__(self) -> None:
        self.here = False
        self.lost = False  # nobody knows when its numbers are
        self.fetched: Fetched | None = None
        self.events: list[Any] | None = None  # None: more may come
        self.own: Any = None  # of the events the one that is no row's

    def look(self) -> bool:
        """Whether all of it is here."""
        if not self.here and self.events is not None and all(one.query() for one in self.events):
            self.here = True
            if self.fetched is not None:
                self.fetched.land()
        return self.here


class Waiting(NamedTuple):
    """A row, until the card is through with it."""

    row: Row
    end: Any
    values: dict[str, object]
    delivery: Delivery | None
    timing_ns: int  # spent on recording its events; 0: it was not timed

    def arrived(self) -> dict[str, object]:
        """The values that are here."""
        if self.delivery is None or (self.delivery.here and not self.delivery.lost):
            return self.values
        return {name: value for name, value in self.values.items() if isinstance(value, float)}

    @property
    def idle(self) -> bool:
        """Whether the card has nothing to do with it."""
        return self.end is None and self.delivery is None

    def over(self) -> bool:
        """Whether the card has come so far."""
        if self.delivery is not None:
            return self.delivery.look()
        return self.end is None or bool(self.end.query())


class CardClock:
    """Pooled timing events on whatever stream is current, and numbers that come from the card."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._device = torch.cuda.current_device()
        self._pool: list[Any] = []
        self._waiting: deque[Waiting] = deque()
        self._delivery: Delivery | None = None  # of the numbers that come next
        self._apart: dict[Any, Any] = {}  # streams and events after the newest copies on them
        self._home = _stream()  # as the last step ended
        self._edge: object = None  # the last step's end, where nothing was copied since
        self._stream_key: object = None
        self._stream: Any = None
        self._look_ns = 0  # at the allocator's figures, from then on
        self._steps = 0
        self._pace = Pace()
        self._timing_ns = 0  # spent on events since the last step that was timed
        self._numbers = CardNumbers(Landing())
        self._passed: list[Kept] = []  # rows that nobody has looked at
        self._may_pass = 0  # rows, before one has to be looked at
        self._again = False  # what the open step logged is as in the one before
        self.timed = True
        self.memory: AllocatorFigures | None = None

    @property
    def every(self) -> int:
        """Of so many steps one is timed."""
        return self._pace.every

    @property
    def together(self) -> bool:
        """Whether logged numbers stay on the card for a while."""
        return self._numbers.together

    def event(self) -> object | None:
        """An event at this point of the current stream; None while a graph is captured."""
        start = _now()
        try:
            found = None if _capturing(_stream()) else self._record()
        except RuntimeError as error:
            self._lost(error)
            return None
        self._timing_ns += _now() - start
        return found

    def boundary(self) -> object | None:
        """The same where one step ends and the next begins; None between two not timed."""
        before = self.timed
        self._steps += 1
        self.timed = self._steps % self._pace.every == 0
        self._edge = self.event() if before or self.timed else None
        return self._edge

    def _record(self) -> Any:
        stream = self._current()
        found = self._pool.pop() if self._pool else _new_event(enable_timing=True)
        try:
            found.record(stream)
        except RuntimeError:  # one that was recorded on another device stays that one's
            found = _new_event(enable_timing=True)
            found.record(stream)
        return found

    def again(self, values: Mapping[str, Any]) -> dict[str, object] | None:
        """What is logged as in the steps before, kept as it is; None: take() is to see to it.

        After a training step whatever is touched has left the processor's caches, so that little
        is touched here: the rest is seen to when the next row is looked at.
        """
        if self._may_pass <= 0 or self._again:
            return None
        stream, lane, left = _stream(), self._numbers.lane, len(self._numbers.lane)
        if stream != self._home or _capturing(stream):
            return None
        kept: dict[str, object] = {}
        try:
            for name, value in values.items():
                if type(value) is _Tensor and name in lane and value.get_device() == self._device:
                    kept[name] = value.detach(), value._version
                    left -= 1
                elif type(value) is float or type(value) is int:
                    kept[name] = float(value)
                else:
                    return None
        except RuntimeError:  # of a tensor made in inference mode: it has no version
            return None
        self._again = left == 0
        return kept if left == 0 else None

    def take(self, tensors: Mapping[str, Any]) -> dict[str, object]:
        """Numbers as they are now, on their way to the host; none while capturing."""
        self._catch_up()
        self._may_pass = 0
        stream = _stream()
        if _capturing(stream):
            return {}
        self._edge = None
        home = bool(stream == self._home)
        return {name: self._number(name, tensor, home) for name, tensor in tensors.items()}

    def _number(self, name: str, tensor: Any, home: bool) -> object:
        """home: on the stream on which steps end."""
        home = home and tensor.get_device() == self._device
        held = self._numbers.hold(name, tensor) if home else None
        if held is not None:
            return held
        start = _now()
        place: object = self._numbers.landing.copy(tensor)
        if not home:
            stream = torch.cuda.current_stream(tensor.device)
            after = self._apart.get(stream)
            if after is None:
                after = self._apart[stream] = _new_event()
            after.record(stream)
        self._numbers.at_once(_now() - start)
        return place

    def described(self, rank: int, restart: int) -> ev.LoopDevice:
        """What the card is."""
        properties = torch.cuda.get_device_properties(self._device)
        uuid = getattr(properties, "uuid", None)
        parts = [getattr(properties, f"pci_{name}_id", None) for name in PCI]
        numbers = [part for part in parts if part is not None]
        address = "{:08x}:{:02x}:{:02x}.0".format(*numbers) if len(numbers) == 3 else None
        return ev.LoopDevice(
            rank=rank,
            restart=restart,
            name=clean(properties.name, 80),
            uuid=None if uuid is None else f"GPU-{uuid}",
            pci_bus_id=address,
        )

    def keep(self, row: Row, end: object | None, values: dict[str, object]) -> None:
        """Take a row that ended with an event; hand on those that the card is through with."""
        again, self._again = self._again, False
        timing_ns = 0
        if row.marks[-1][2] is not None:
            timing_ns, self._timing_ns = self._timing_ns, 0
        kept = row, end, values, timing_ns
        regular = again or not self._numbers.held
        if regular and self._may_pass > 0 and row.end_ns < self._look_ns:
            self._may_pass -= 1
            self._passed.append(kept)
            return
        try:
            self._look(kept)
        except RuntimeError as error:
            self._lost(error)

    def _lost(self, error: RuntimeError) -> None:
        """The card answers no more, which the training's own calls are to tell: not ours."""
        self._may_pass = 0
        self.finish()
        self._tracker.fail(error)

    def _look(self, kept: Kept) -> None:
        """See to a row, and to those that passed before it."""
        self._catch_up()
        row, stream = kept[0], _stream()
        capturing = _capturing(stream)
        self._wait_for(kept)
        if not capturing:
            self._send(row.end_ns, stream)
            self._home = stream
        if row.end_ns >= self._look_ns:
            self._look_ns = row.end_ns + MEMORY_NS
            self.memory = allocator_figures(self._device) or self.memory
        self._settle(MOST_HANDED_ON, capturing)
        self._may_pass = 0 if capturing else self._passable(kept)

    def _passable(self, kept: Kept) -> int:
        """How many rows may pass now: of such steps as come within a moment."""
        row, _, values, _ = kept
        start_ns, end_ns = row.marks[0][0], row.end_ns
        most = min(MOST_PASSED, PASSED_NS // max(1, end_ns - start_ns))
        if self._numbers.held:
            return min(most, self._numbers.may_pass(start_ns, end_ns))
        return most if _only_floats(values) else 0

    def _catch_up(self) -> None:
        passed, self._passed = self._passed, []
        for kept in passed:
            self._wait_for(kept)

    def _wait_for(self, kept: Kept) -> None:
        """A row is through when the card is, and its numbers have come."""
        row, end, values, timing_ns = kept
        if len(self._waiting) >= MOST_WAITING:
            self._give_up(self._waiting.popleft())
        if not _only_floats(values):
            values = self._seen(values)
            self._delivery = self._delivery or Delivery()
        start_ns = row.marks[0][0]
        self._numbers.step_ended(start_ns, row.end_ns, allowed_ns(row.end_ns - start_ns))
        self._waiting.append(Waiting(row, end, values, self._delivery, timing_ns))

    def _seen(self, values: dict[str, object]) -> dict[str, object]:
        """Numbers as again() kept them: tensors that share their memory, and their versions."""
        return {
            name: self._numbers.adopt(name, *value) if isinstance(value, tuple) else value
            for name, value in values.items()
        }

    def finish(self) -> None:
        """The loop is over: all rows are handed on, with what comes within a moment."""
        self._catch_up()
        with contextlib.suppress(RuntimeError):  # of a card that is lost
            stream = _stream()
            if not _capturing(stream):
                if self._delivery is not None:
                    self._close(self._delivery, stream)
                self._settle_all(_now() + PATIENCE_NS)
        while self._waiting:
            self._give_up(self._waiting.popleft())
        self._numbers.forget()

    def _settle_all(self, until_ns: int) -> None:
        self._settle(MOST_WAITING, capturing=False)
        while self._waiting and _now() < until_ns:
            time.sleep(0.0002)
            self._settle(MOST_WAITING, capturing=False)

    def _settle(self, most: int, capturing: bool) -> None:
        """Hand on so many rows at most."""
        waiting = self._waiting
        for _ in range(min(most, len(waiting))):
            first = waiting[0]
            if not first.idle and (capturing or not first.over()):
                break
            self._hand_on(waiting.popleft())

    def _send(self, end_ns: int, stream: Any) -> None:
        """Have the numbers come that wait, where it is time at the end of a step."""
        waits = self._numbers.held and stream == self._home and not self._numbers.due(end_ns)
        if self._delivery is not None and not waits:
            self._close(self._delivery, stream)

    def _close(self, delivery: Delivery, stream: Any) -> None:
        """Nothing more comes with it. Copies of a step in which the stream changed are lost."""
        start = _now()
        delivery.lost = stream != self._home
        if self._numbers.held and not delivery.lost:
            delivery.fetched = self._numbers.fetch()
            self._edge = None
        self._numbers.forget()
        if self._edge is None:
            delivery.own = self._record()
        delivery.events = [*self._apart.values(), delivery.own or self._edge]
        self._apart, self._delivery = {}, None
        self._numbers.sent(_now() - start, together=delivery.fetched is not None)

    def _current(self) -> Any:
        """The current stream; its object is made anew only where it is another."""
        key = _stream()
        if key != self._stream_key:
            self._stream_key, self._stream = key, torch.cuda.current_stream()
        return self._stream

    def _hand_on(self, waiting: Waiting) -> None:
        row, end, _, delivery, timing_ns = waiting
        if delivery is not None and delivery.own is not None:
            self._pool.append(delivery.own)
            delivery.own = None
        if row.marks[0][2] is None and not timing_ns:
            self._take(row, None, waiting.arrived())
            return
        start = _now()
        events: list[Any] = [event for _, _, event in row.marks if event is not None]
        times: list[float] | None = None
        if end is not None and len(events) == len(row.marks) < MOST_EVENTS:
            with contextlib.suppress(RuntimeError):  # of a stream that is behind, or two devices
                times = [one.elapsed_time(other) for one, other in pairwise([*events, end])]
        self._take(row, times, waiting.arrived())
        self._pool += events
        if timing_ns:
            allowed = allowed_ns(row.end_ns - row.marks[0][0])
            left = max(allowed // 4, allowed - self._numbers.cost_ns, 1)
            self._pace.timed(timing_ns + _now() - start, left)

    def _give_up(self, waiting: Waiting) -> None:
        """A row without the card's times, and without numbers that have not come."""
        self._take(waiting.row, None, waiting.arrived())
        # Its events may still be on their way: they are not used again.

    def _take(self, row: Row, times: list[float] | None, values: dict[str, object]) -> None:
        row.device_ms = times
        for name, value in values.items():
            if isinstance(value, float):
                row.values[name] = value
            elif not isinstance(value, Held):
                row.values[name] = self._numbers.landing.take(value)
            elif value.number is not None:
                row.values[name] = value.number
        self._tracker.take(row)


def allocator_figures(device: int) -> AllocatorFigures | None:
    """What the allocator of a card says now; None where it does not."""
    stats = _raw_memory(device)
    if stats is None:
        return None
    return AllocatorFigures(
        allocated=stats["allocated_bytes"]["all"]["current"],
        peak=stats["allocated_bytes"]["all"]["peak"],
        reserved=stats["reserved_bytes"]["all"]["current"],
        retries=stats["num_alloc_retries"],
    )


def find_card(tracker: Tracker) -> CardClock | None:
    """A clock, once the process uses a card; makes no context itself."""
    return CardClock(tracker) if _in_use() else None


def is_there() -> bool:
    """Whether there may ever be a card to find."""
    return torch.version.cuda is not None and torch.cuda.device_count() > 0


def _only_floats(values: Mapping[str, object]) -> bool:
    return all(type(value) is float for value in values.values())


def _stream() -> Any:
    """The current stream of the current device; the stream's number is the first of three."""
    return torch.cuda.current_stream() if _stream_now is None else _stream_now(_device_now())


def _capturing(stream: Any) -> bool:
    """Whether a graph is captured on the current stream, which is given.

    On the default stream none can be: the driver, which may take long over it, is not asked.
    """
    default = isinstance(stream, tuple) and stream[0] == 0
    return not default and torch.cuda.is_current_stream_capturing()


def _raw_memory(device: int) -> Any:
    """The allocator's own figures; torch.cuda.memory_stats takes ten times as long over them."""
    call = getattr(torch._C, "_cuda_memoryStats", None)
    try:
        return None if call is None else call(device)
    except (RuntimeError, TypeError):
        return None
