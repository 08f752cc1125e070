"""Logged numbers on their way from the card: each as it is logged, or those of many steps together.

A copy to the host at once is always right, and on some machines dear. There, numbers of short
steps stay on the card for a while and are fetched by one copy. A number stays as a copy on the
card that nobody else knows; or, which costs nothing, as the tensor itself, once its name was seen
to leave such tensors as they are. What may have been changed since is unknown, never shown.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import torch

TOGETHER_NS = 500_000_000  # of steps whose numbers are fetched together, and
MOST_TOGETHER = 32  # so many at most
SHORT_NS = TOGETHER_NS // 4  # of a longer step a copy is nothing
REGULAR = 8  # steps in a row in which a name was logged, and copies that equalled their tensors
MOST_SERIES = 64
SMALL_BYTES = 512  # the allocator's least: a number within more would keep all of that
COSTS = 9  # of steps, whose median counts: a launch queue that is full holds up some
SLOTS = 64
PLAIN = (torch.Tensor, torch.nn.Parameter)
KINDS = {
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.bool),
}


class Costs:
    """The newest costs of something, nanoseconds."""

    def __init__(self) -> None:
        self._newest: deque[int] = deque(maxlen=COSTS)

    def add(self, cost_ns: int) -> None:
        """One more."""
        self._newest.append(cost_ns)

    @property
    def median_ns(self) -> int | None:
        """None where there are too few to say."""
        enough = len(self._newest) > COSTS // 3
        return sorted(self._newest)[len(self._newest) // 2] if enough else None


class Landing:
    """Places in the host's memory where numbers from the card arrive, used again and again."""

    def __init__(self, *, pinned: bool = True) -> None:
        self._pinned = pinned
        self._free: dict[torch.dtype, list[Any]] = {}
        self._free_rows: dict[tuple[torch.dtype, int], list[Any]] = {}

    def copy(self, tensor: Any) -> Any:
        """A tensor of one element as it is now, on its way to the host."""
        free = self._free.setdefault(tensor.dtype, [])
        if not free:
            free += self._new(SLOTS, tensor.dtype).unbind()
        place = free.pop()
        place.copy_(tensor.detach().reshape(()), non_blocking=True)
        return place

    def take(self, place: Any) -> float:
        """The number that has arrived there; the place is free again."""
        number = float(place.item())
        self._free[place.dtype].append(place)
        return number

    def copy_all(self, tensors: list[Any]) -> Any:
        """Tensors without dimensions, all of one kind, on their way together."""
        size = -(-len(tensors) // SLOTS) * SLOTS
        free = self._free_rows.setdefault((tensors[0].dtype, size), [])
        place = free.pop() if free else self._new(size, tensors[0].dtype)
        place[: len(tensors)].copy_(torch.stack(tensors), non_blocking=True)
        return place

    def take_all(self, place: Any, count: int) -> list[float]:
        """The numbers that have arrived there."""
        numbers = [float(number) for number in place[:count].tolist()]
        self._free_rows[place.dtype, len(place)].append(place)
        return numbers

    def _new(self, size: int, dtype: torch.dtype) -> Any:
        with torch.inference_mode(False):  # or it could not be written outside of that mode
            return torch.empty(size, dtype=dtype, device="cpu", pin_memory=self._pinned)


class Series:
    """The numbers of one name."""

    __slots__ = ("alike", "changes", "pointers", "refused", "run", "step")

    def __init__(self) -> None:
        self.step = -1  # in which it was logged last
        self.run = 0  # steps in a row before that one
        self.alike = 0  # copies that equalled their tensors when both were fetched
        self.changes = False  # a tensor was changed after it was logged
        self.refused = False  # to be fetched with others
        self.pointers: set[int] = set()  # of tensors that wait to be fetched

    def logged(self, step: int) -> None:
        """Once more; twice in a step is not what is called regular."""
        self.run = self.run + 1 if step == self.step + 1 else 0
        self.step = step


class Held:
    """A number that stays on the card: as a copy, as the tensor itself, or as both, to compare."""

    __slots__ = ("copied", "copy", "number", "pointer", "read", "series", "tensor", "version")

    def __init__(self, series: Series, copy: Any, tensor: Any, pointer: int, version: int) -> None:
        self.series = series
        self.copy = copy
        self.tensor = tensor
        self.pointer = pointer
        self.version = version  # of the tensor as it was logged
        self.copied: float | None = None  # what they were when they were fetched
        self.read: float | None = None
        self.number: float | None = None  # what was logged; None: not known

    def there(self) -> bool:
        """Whether the tensor has its memory still, which a compiler's graphs take away."""
        try:
            return bool(self.tensor.data_ptr() == self.pointer)
        except RuntimeError:
            return False

    def compare(self) -> None:
        """Both have arrived."""
        if self.tensor is None:
            return
        changed = self.read is None or self.tensor._version != self.version
        if not changed and self.copy is not None:
            changed = not _same(self.copied, self.read)
            self.series.alike += not changed
        self.series.changes |= changed

    def settle(self) -> None:
        """All of its series were compared: the number, where one can be sure of it."""
        if self.copy is not None:
            self.number = self.copied
        elif not self.series.changes:
            self.number = self.read
        self.let_go()

    def let_go(self) -> None:
        """Of the card's memory."""
        self.copy = self.tensor = None


class Fetched:
    """Numbers on their way together."""

    def __init__(self, held: list[Held], landing: Landing) -> None:
        self._held = held
        self._landing = landing
        self._kinds: dict[torch.dtype, list[tuple[Held, Any]]] = {}
        for one in held:
            if one.tensor is not None and not one.there():
                one.series.changes, one.tensor = True, None
            for tensor in (one.copy, one.tensor):
                if tensor is not None:
                    self._kinds.setdefault(tensor.dtype, []).append((one, tensor))
        self._places = [
            landing.copy_all([tensor for _, tensor in kind]) for kind in self._kinds.values()
        ]

    def land(self) -> None:
        """They are there."""
        for place, kind in zip(self._places, self._kinds.values(), strict=True):
            for (one, tensor), number in zip(
                kind, self._landing.take_all(place, len(kind)), strict=True
            ):
                if tensor is one.copy:
                    one.copied = number
                else:
                    one.read = number
        for one in self._held:
            one.compare()
        for one in self._held:
            one.settle()


class CardNumbers:
    """Says how a logged number gets to the host, and keeps those that stay on the card."""

    def __init__(self, landing: Landing) -> None:
        self.landing = landing
        self.together = False  # copies at once cost too much, and steps are short
        self.held: list[Held] = []
        self.lane: dict[str, Series] = {}  # names whose next tensors stay as they are, unseen
        self._holding: set[Series] = set()
        self._series: dict[str, Series] = {}
        self._step = 0
        self._begun_ns: int | None = None  # the first step of what is held
        self._steps = 0  # of what is held
        self._collectives = False  # when the first of them was logged
        self._last = False  # the step that goes on is likely to be the last of them
        self._long = False  # the last step was
        self._at_once_ns = 0  # spent in this step
        self._costs = Costs()
        self._shares = Costs()  # of a step in what was fetched together
        self._fetching = 1  # steps

    @property
    def cost_ns(self) -> int:
        """What numbers cost a step now."""
        return (self._shares if self.together else self._costs).median_ns or 0

    def hold(self, name: str, tensor: Any) -> Held | None:
        """Let a number stay on the card; None where it is to be copied at once."""
        series = self._series.get(name)
        if series is None:
            if len(self._series) >= MOST_SERIES:
                return None
            series = self._series[name] = Series()
        series.logged(self._step)
        if not self.together or series.run < REGULAR or series.refused or not _is_plain(tensor):
            return None
        number = tensor.detach()
        number = number.reshape(()) if number.dim() else number
        pointer = self._pointer(series, tensor)
        trusted = pointer and series.alike >= REGULAR
        between = series.pointers and not self._last  # the first and the last are compared
        copy = None if trusted and between else number.clone()
        if trusted:
            self.lane[name] = series
        return self._held(
            series, copy, number if pointer else None, pointer, number._version if pointer else 0
        )

    def adopt(self, name: str, tensor: Any, version: int) -> Held:
        """A number of the lane: a tensor that shares its memory, as it was logged with a version.

        What is no number after all, or whose memory others wrote, is unknown.
        """
        series = self._series[name]
        series.logged(self._step)
        pointer = self._pointer(series, tensor) if _is_plain(tensor) and tensor.numel() == 1 else 0
        number = tensor.reshape(()) if pointer and tensor.dim() else tensor
        return self._held(series, None, number if pointer else None, pointer, version)

    def _held(self, series: Series, copy: Any, tensor: Any, pointer: int, version: int) -> Held:
        found = Held(series, copy, tensor, pointer, version)
        if pointer:
            series.pointers.add(pointer)
        self._holding.add(series)
        self.held.append(found)
        return found

    def at_once(self, spent_ns: int) -> None:
        """A copy at once took so long."""
        self._at_once_ns += spent_ns

    def sent(self, spent_ns: int, *, together: bool) -> None:
        """What was to be done at a step's end, so that it is known when they are there."""
        if together:
            self._shares.add(spent_ns // self._fetching)
        else:
            self._at_once_ns += spent_ns

    def step_ended(self, start_ns: int, end_ns: int, allowed_ns: int) -> None:
        """Numbers stay where copies at once cost more than is allowed, and steps are short."""
        self._step += 1
        if self._at_once_ns:
            self._costs.add(self._at_once_ns)
            self._at_once_ns = 0
            median = self._costs.median_ns
            self.together = median is not None and median > allowed_ns
        long = end_ns - start_ns > SHORT_NS
        if long and self._long:  # not one now and then, as after an evaluation
            self.together = False
        self._long = long
        if self.held:
            self._steps += 1
            self._begun_ns = start_ns if self._begun_ns is None else self._begun_ns
            next_ns = 2 * end_ns - start_ns
            self._last = self._many(self._steps + 1, next_ns - self._begun_ns)

    def due(self, end_ns: int) -> bool:
        """Whether what is held is to be fetched at the end of the step that has just ended.

        So it is where a name was not logged in it: who knows when it will be again.
        """
        return self._begun_ns is not None and (
            self._many(self._steps, end_ns - self._begun_ns)
            or not self.together
            or any(series.step != self._step - 1 for series in self._holding)
        )

    def may_pass(self, start_ns: int, end_ns: int) -> int:
        """How many steps like the last may end before somebody has to know that they did.

        The one in which the numbers that are held are fetched is not among them.
        """
        if not self.lane or len(self.lane) < len(self._holding) or not self.together:
            return 0
        left_ns = TOGETHER_NS - (end_ns - (self._begun_ns or end_ns))
        by_time = left_ns // max(1, end_ns - start_ns)
        return max(0, min(MOST_TOGETHER - self._steps, by_time) - 1)

    def fetch(self) -> Fetched | None:
        """Send all that is held on its way; None where that fails: it is unknown then."""
        self._fetching = max(1, self._steps)
        held = self._take()
        try:
            return Fetched(held, self.landing)
        except RuntimeError:  # of a lost card, or tensors of a kind that cannot be put together
            for one in held:
                one.series.refused = True
                one.let_go()
            return None

    def forget(self) -> None:
        """What is held is unknown."""
        for one in self._take():
            one.let_go()

    @staticmethod
    def _many(steps: int, ns: int) -> bool:
        return steps >= MOST_TOGETHER or ns >= TOGETHER_NS

    def _take(self) -> list[Held]:
        held, self.held = self.held, []
        self._begun_ns, self._steps, self._last = None, 0, False
        for series in self._holding:
            series.pointers.clear()
        self._holding.clear()
        self.lane.clear()
        return held

    def _pointer(self, series: Series, tensor: Any) -> int:
        """Where a tensor lies that may stay as it is; 0 where it has to be copied.

        Collectives change tensors and do not count as changes, so that none stays where there are
        any.
        """
        if not self.held:
            self._collectives = _has_collectives()
        if series.changes or self._collectives:
            return 0
        try:
            if tensor.is_inference() or tensor.untyped_storage().nbytes() > SMALL_BYTES:
                return 0
            pointer = int(tensor.data_ptr())
        except RuntimeError:
            return 0
        if pointer in series.pointers:  # memory that is written again and again, as by a graph
            self._distrust(series)
            return 0
        return pointer

    def _distrust(self, series: Series) -> None:
        series.changes = True
        self.lane = {name: one for name, one in self.lane.items() if one is not series}
        for one in self.held:
            if one.series is series:
                one.tensor = None


def _is_plain(tensor: Any) -> bool:
    return type(tensor) in PLAIN and tensor.dtype in KINDS


def _has_collectives() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _same(one: float | None, other: float | None) -> bool:
    return one == other or (one != one and other != other)  # noqa: PLR0124  nan is like nan
