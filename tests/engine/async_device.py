"""A device that works on while the host goes on: what makes a timing without a drain wrong."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from llmprof.core.worker import clock

MS = 1_000_000


class AsyncDevice:
    """Host and device each with a clock; launching costs the host 10 µs and the device its work."""

    LAUNCH_NS = 10_000

    def __init__(self) -> None:
        self.host_ns = 0
        self.free_at_ns = 0  # when the device will have done all that was launched

    def launch(self, milliseconds: float) -> None:
        """Enqueue work and return at once."""
        self.host_ns += self.LAUNCH_NS
        self.free_at_ns = max(self.free_at_ns, self.host_ns) + round(milliseconds * MS)

    def synchronize(self, device: object = None) -> None:
        """Wait for the device."""
        self.host_ns = max(self.host_ns, self.free_at_ns)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put this device in place of CUDA, for the clock that times it."""
        device = self

        class Event:
            def __init__(self, *, enable_timing: bool) -> None:
                assert enable_timing
                self.at_ns: int | None = None

            def record(self) -> None:
                self.at_ns = max(device.free_at_ns, device.host_ns)

            def elapsed_time(self, other: Event) -> float:
                assert self.at_ns is not None
                assert other.at_ns is not None
                assert device.host_ns >= other.at_ns, "read before the device had reached it"
                return (other.at_ns - self.at_ns) / MS

        monkeypatch.setattr(torch.cuda, "Event", Event)
        monkeypatch.setattr(torch.cuda, "synchronize", self.synchronize)
        host = SimpleNamespace(perf_counter_ns=lambda: device.host_ns)
        monkeypatch.setattr(clock, "time", host)
