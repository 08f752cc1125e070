"""A card that is not there, for the clock of a tracked loop: tensors of the CPU stand for its own.

What is copied is copied as the call is made, as a card does it in the order of its stream; that it
has come is told by events, which are reached when the card is said to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from llmprof.core.track import device_clock
from llmprof.core.track.card_numbers import Landing
from llmprof.core.track.device_clock import CardClock
from llmprof.core.track.tracker import Row, Tracker

MS = 1_000_000
DEVICE = -1  # what a tensor of the CPU says
DEFAULT_STREAM = 0, DEVICE, 1
Stream = tuple[int, int, int]  # its number, its device and the kind of that


class FakeEvent:
    """Reached when the card is; belongs to the device on which it was recorded first."""

    def __init__(self, card: FakeCard) -> None:
        self._card = card
        self._at = 0
        self._device: int | None = None

    def record(self, stream: Stream) -> None:
        """At this point."""
        if self._device not in (None, stream[1]):
            raise RuntimeError("Event device does not match recording stream's device.")
        self._device = stream[1]
        self._card.called("record")
        self._card.recorded += 1
        self._at = self._card.recorded

    def query(self) -> bool:
        """Whether the card has come so far."""
        self._card.called("query")
        return self._at <= self._card.reached

    def elapsed_time(self, other: FakeEvent) -> float:
        """Of two events that are reached."""
        if self._device != other._device:
            raise RuntimeError("CUDA error: invalid resource handle")
        assert max(self._at, other._at) <= self._card.reached
        return 1.0


class FakeCard:
    """Steps of a loop on it; a copy at once costs so much on the host."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, copy_ns: int, step_ns: int) -> None:
        self.recorded = self.reached = 0  # events
        self.keeps_up = True  # the card is through as soon as it is asked
        self.calls: list[str] = []
        self.capturing = False
        self.stream: Stream = DEFAULT_STREAM
        self.step_ns = step_ns
        self.now_ns = 0
        self.read_ns = copy_ns
        self._clock_ns = 0
        patched = {
            "_new_event": lambda **_: FakeEvent(self),
            "_stream": lambda: self.stream,
            "_capturing": lambda _: self.capturing,
            "_now": self._read_clock,
            "Landing": lambda: FakeLanding(self),
        }
        for name, value in patched.items():
            monkeypatch.setattr(device_clock, name, value)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: DEVICE)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: self.stream)
        self.tracker = Tracker()
        self.clock = CardClock(self.tracker)
        self._index = 0
        self._edge: object = None

    def log(self, **values: torch.Tensor | float) -> dict[str, object]:
        """Numbers of the step that goes on."""
        again = self.clock.again(values)
        if again is not None:
            return again
        tensors = {name: one for name, one in values.items() if isinstance(one, torch.Tensor)}
        floats = {name: float(one) for name, one in values.items() if name not in tensors}
        return floats | self.clock.take(tensors)

    def end_step(self, values: dict[str, object], step_ns: int | None = None) -> None:
        """The step is over."""
        start, self.now_ns = self.now_ns, self.now_ns + (step_ns or self.step_ns)
        body = self.clock.event() if self.clock.timed and not self.capturing else None
        row = Row(
            self._index, None, [(start, "between", self._edge), (start, "", body)], self.now_ns
        )
        self._index += 1
        if self.keeps_up:
            self.reached = self.recorded + 2
        self._edge = self.clock.boundary()
        self.clock.keep(row, self._edge, values)

    def step(self, **tensors: torch.Tensor | float) -> None:
        """One that does nothing but log."""
        self.end_step(self.log(**tensors))

    def rows(self, name: str = "loss") -> list[float | None]:
        """What was handed on so far, in order."""
        assert [row.index for row in self.tracker.rows] == list(range(len(self.tracker.rows)))
        return [row.values.get(name) for row in self.tracker.rows]

    def finish(self, name: str = "loss") -> list[float | None]:
        """The loop is over."""
        self.clock.finish()
        return self.rows(name)

    def called(self, name: str) -> None:
        """Something was asked of the card."""
        assert not self.capturing
        self.calls.append(name)

    def _read_clock(self) -> int:
        self._clock_ns += self.read_ns
        return self._clock_ns


class FakeLanding(Landing):
    """Counts copies."""

    def __init__(self, card: FakeCard) -> None:
        super().__init__(pinned=False)
        self._card = card

    def copy(self, tensor: Any) -> Any:
        """One."""
        self._card.called("copy")
        return super().copy(tensor)

    def copy_all(self, tensors: Sequence[Any]) -> Any:
        """Many."""
        self._card.called("copy all")
        return super().copy_all(list(tensors))
