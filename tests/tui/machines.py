"""A machine for the Monitor view: recorded or made-up samples instead of a sampler."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec

from llmprof.core import events as ev
from llmprof.core.devices.recorded import read_recording
from llmprof.core.state.reducer import Reducer
from llmprof.core.state.view import RunView
from llmprof.tui.session.monitoring import Monitoring

RECORDING = Path(__file__).parents[1] / "fixtures" / "monitor-load.jsonl"
GIB = 2**30


def recorded(until_s: float) -> list[ev.DeviceSample]:
    """The recording's samples up to a time."""
    samples = [sample for sample in read_recording(RECORDING) if sample.cards]
    return [sample for sample in samples if sample.t - samples[0].t <= until_s * 1e9]


def card(index: int, name: str = "NVIDIA H100", **more: object) -> ev.CardSample:
    metrics = {
        "utilization": ev.Metric(10.0 * index),
        "memory_used": ev.Metric(float(index + 1) * GIB),
        "memory_total": ev.Metric(80.0 * GIB),
        "power": ev.Metric(100.0 + index),
        "power_limit": ev.Metric(700.0),
        "fan": ev.Metric(None, "this card does not report it"),
    }
    given = {"metrics": metrics, "name": name, "processes": (), **more}
    return ev.CardSample(index=index, **given)  # type: ignore[arg-type]


def sample(*cards: ev.CardSample, t: int = 0, reason: str | None = None) -> ev.DeviceSample:
    host = ev.HostSample(
        cpu_percent=12.0, memory_used_bytes=4 * GIB, memory_total_bytes=16 * GIB, load1=0.5
    )
    return ev.DeviceSample(t=t, host=host, cards=cards, cards_reason=reason, cost_ms=0.4)


class Machine:
    """Stands for core.monitor.watch.Watch; more() hands on further samples."""

    def __init__(self, samples: Sequence[ev.DeviceSample]) -> None:
        self._reducer = Reducer()
        self._waiting = list(samples)
        self._lock = threading.Lock()
        self._came = threading.Event()
        self.polls = 0
        self.activity: list[bool] = []
        self.closed = False
        self.fails: Exception | None = None

    def more(self, *samples: ev.DeviceSample) -> None:
        with self._lock:
            self._waiting += samples
        self._came.set()

    def poll(self, timeout_s: float = 0.0) -> bool:
        if self.fails is not None:
            raise self.fails
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for event in waiting:
            self._reducer.apply(event)
        self.polls += 1
        if not waiting:
            self._came.wait(min(timeout_s, 0.02))
        self._came.clear()
        return bool(waiting)

    def view(self) -> RunView:
        return self._reducer.view()

    @property
    def recording(self) -> str:
        return ""

    def show_activity(self, on: bool) -> None:
        self.activity.append(on)

    def close(self) -> None:
        self.closed = True

    @property
    def monitoring(self) -> Monitoring:
        return Monitoring(open=lambda interval_s, gpus: self)


def shifted(samples: Sequence[ev.DeviceSample], index: int) -> list[ev.DeviceSample]:
    """Samples of a machine on which the recorded card is there twice."""
    return [
        msgspec.structs.replace(
            s, cards=(*s.cards, *(msgspec.structs.replace(c, index=index) for c in s.cards))
        )
        for s in samples
    ]
