"""The card's own times of the same stretches: events that are read when the card is through.

Nothing in here waits for the card, and nothing is recorded while a graph is being captured.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from llmprof.core import events as ev
from llmprof.core.system.text import clean
from llmprof.core.track.allocator import AllocatorFigures
from llmprof.core.track.parts import Mark
from llmprof.core.track.tracker import Row, Tracker

MOST_WAITING = 64  # steps whose times the card has not come to
MOST_EVENTS = 48  # of one step
ALLOWED_NS = 20_000  # of host time a step for the card's times, and
ALLOWED_SHARE = 400  # at most one in so many of the step's; where they cost more, some are timed
MOST_SKIPPED = 32
COSTS = 9  # of timed steps, whose median counts: a launch queue that is full holds up some
SLOTS = 64
PCI = ("domain", "bus", "device")
_in_use: Callable[[], bool] = torch.cuda.is_initialized
MEMORY_NS = 1_000_000_000  # between two looks at the allocator


_new_event: Any = torch.cuda.Event
_now = time.monotonic_ns


class Pace:
    """Of how many steps one is timed, so that it costs what is allowed on average."""

    def __init__(self) -> None:
        self.every = 1
        self.spent_ns = 0  # since the last step that was timed
        self._costs: deque[int] = deque(maxlen=COSTS)

    def step_ended(self, wall_ns: int, *, timed: bool) -> None:
        """A step is over."""
        if not timed:
            return
        self._costs.append(self.spent_ns)
        self.spent_ns = 0
        if len(self._costs) > COSTS // 3:
            cost = sorted(self._costs)[len(self._costs) // 2]
            allowed = max(1, min(ALLOWED_NS, wall_ns // ALLOWED_SHARE))
            self.every = min(MOST_SKIPPED, max(1, -(-cost // allowed)))


class Landing:
    """Places in the host's memory where numbers from the card arrive, used again and again."""

    def __init__(self, *, pinned: bool = True) -> None:
        self._pinned = pinned
        self._free: dict[torch.dtype, list[Any]] = {}

    def copy(self, tensor: Any) -> Any:
        """A tensor of one element as it is now, on its way to the host."""
        free = self._free.setdefault(tensor.dtype, [])
        if not free:
            with torch.inference_mode(False):  # or it could not be written outside of that mode
                free += torch.empty(
                    SLOTS, dtype=tensor.dtype, device="cpu", pin_memory=self._pinned
                ).unbind()
        place = free.pop()
        place.copy_(tensor.detach().reshape(()), non_blocking=True)
        return place

    def take(self, place: Any) -> float:
        """The number that has arrived there; the place is free again."""
        number = float(place.item())
        self._free[place.dtype].append(place)
        return number


class CardClock:
    """Pooled timing events on whatever stream is current."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._device = torch.cuda.current_device()
        self._pool: list[torch.cuda.Event] = []
        self._waiting: deque[tuple[Row, Any, dict[str, object]]] = deque()
        self._stream_key: object = None
        self._stream: Any = None
        self._looked_ns = 0
        self._timed = True
        self._steps = 0
        self._pace = Pace()
        self._landing = Landing()
        self.memory: AllocatorFigures | None = None

    def event(self) -> torch.cuda.Event | None:
        """An event at this point of the current stream; None in a step that is not timed."""
        return self._record() if self._timed else None

    def boundary(self) -> torch.cuda.Event | None:
        """The same where one step ends and the next begins."""
        before = self._timed
        self._steps += 1
        self._timed = self._steps % self._pace.every == 0
        return self._record() if before or self._timed else None

    def _record(self) -> torch.cuda.Event | None:
        """None while a graph is captured: an event would spoil it."""
        start = _now()
        if torch.cuda.is_current_stream_capturing():
            return None
        found = self._pool.pop() if self._pool else _new_event(enable_timing=True)
        found.record(self._current())
        self._pace.spent_ns += _now() - start
        return found

    def copy(self, tensor: Any) -> object | None:
        """The value of a tensor as it is now, on its way to the host; None while capturing."""
        if torch.cuda.is_current_stream_capturing():
            return None
        place: object = self._landing.copy(tensor)
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
        """Take a row that ended with an event; it is handed on once the card has come so far."""
        if len(self._waiting) >= MOST_WAITING:
            self._give_up(*self._waiting.popleft())
        if end is None and any(isinstance(value, torch.Tensor) for value in values.values()):
            end = self._record()
        self._waiting.append((row, end, values))
        self._pace.step_ended(row.end_ns - row.marks[0][0], timed=row.marks[-1][2] is not None)
        if row.end_ns - self._looked_ns > MEMORY_NS:
            self._looked_ns = row.end_ns
            self._look_at_memory()

    def settle(self, *, everything: bool = False) -> None:
        """Hand on rows that the card is through with; everything: also those it is not."""
        if self._waiting and not torch.cuda.is_current_stream_capturing():
            while self._waiting:
                row, end, values = self._waiting[0]
                if end is not None and not end.query():
                    break
                self._waiting.popleft()
                self._hand_on(row, end, values)
        while everything and self._waiting:
            self._give_up(*self._waiting.popleft())

    def _current(self) -> Any:
        """The current stream; its object is made anew only where it is another."""
        key = _raw_stream(self._device)
        if key is None:
            return torch.cuda.current_stream()
        if key != self._stream_key:
            self._stream_key, self._stream = key, torch.cuda.current_stream()
        return self._stream

    def _hand_on(self, row: Row, end: Any, values: dict[str, object]) -> None:
        start = _now()
        events: list[Any] = [event for _, _, event in row.marks] + [end]
        times: list[float] | None = None
        if all(event is not None for event in events) and len(events) <= MOST_EVENTS:
            with contextlib.suppress(RuntimeError):  # of a stream that is behind
                times = [one.elapsed_time(other) for one, other in pairwise(events)]
        self._take(row, times, values if end is not None else _plain(values))
        self._reuse(row.marks)
        self._pace.spent_ns += _now() - start

    def _give_up(self, row: Row, end: Any, values: dict[str, object]) -> None:
        """A row without the card's times, and without values that have not come."""
        self._take(row, None, _plain(values))
        # Its events may still be on their way: the pool takes them when they are old.

    def _take(self, row: Row, times: list[float] | None, values: dict[str, object]) -> None:
        row.device_ms = times
        for name, value in values.items():
            if isinstance(value, float):
                row.values[name] = value
            elif isinstance(value, torch.Tensor):
                row.values[name] = self._landing.take(value)
        self._tracker.take(row)

    def _reuse(self, marks: list[Mark]) -> None:
        self._pool += [event for _, _, event in marks if isinstance(event, torch.cuda.Event)]

    def _look_at_memory(self) -> None:
        self.memory = allocator_figures(self._device) or self.memory


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


def _plain(values: dict[str, object]) -> dict[str, object]:
    """Those that never were on the card."""
    return {name: value for name, value in values.items() if isinstance(value, float)}


def find_card(tracker: Tracker) -> CardClock | None:
    """A clock, once the process uses a card; makes no context itself."""
    return CardClock(tracker) if _in_use() else None


def is_there() -> bool:
    """Whether there may ever be a card to find."""
    return torch.version.cuda is not None and torch.cuda.device_count() > 0


def _raw_stream(device: int) -> object | None:
    """What tells streams apart, in a tenth of the time; None where torch has no such call."""
    call = getattr(torch._C, "_cuda_getCurrentStream", None)
    return None if call is None else call(device)


def _raw_memory(device: int) -> Any:
    """The allocator's own figures; torch.cuda.memory_stats takes ten times as long over them."""
    call = getattr(torch._C, "_cuda_memoryStats", None)
    try:
        return None if call is None else call(device)
    except (RuntimeError, TypeError):
        return None
