"""The sampler's loop, its schedule and the sources that need no card."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core import events as ev
from llmprof.core.devices.host import PsutilHost
from llmprof.core.devices.recorded import ReplaySource, read_recording
from llmprof.core.devices.sampler import Sampler
from llmprof.core.devices.schedule import Slot
from llmprof.core.devices.source import DeviceSource
from tests.unit.fake_binding import Clock, FakeNvml, cards_of


class FakeTime:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class ScriptedSource:
    """Hands out samples in order; after the last one it repeats that one."""

    def __init__(self, samples: list[ev.DeviceSample]) -> None:
        self._samples = samples

    def poll(self) -> ev.DeviceSample:
        return self._samples.pop(0) if len(self._samples) > 1 else self._samples[0]

    def catch_up(self) -> None:
        pass

    def show_activity(self, on: bool) -> None:
        pass

    def close(self) -> None:
        pass


class SlowSource(ScriptedSource):
    """Every poll takes cost_s of the clock."""

    def __init__(self, clock: FakeTime, cost_s: float) -> None:
        super().__init__([sample(0)])
        self._time, self.cost_s = clock, cost_s

    def poll(self) -> ev.DeviceSample:
        self._time.now += self.cost_s
        return super().poll()


def sample(t: int, **metrics: float) -> ev.DeviceSample:
    card = ev.CardSample(
        index=0, name="H100", metrics={name: ev.Metric(value) for name, value in metrics.items()}
    )
    return ev.DeviceSample(t=t, host=ev.HostSample(cpu_percent=1.0), cards=(card,))


def test_the_interval_grows_while_polling_is_dear_and_comes_back() -> None:
    clock = FakeTime()
    source = SlowSource(clock, 0.2)
    sampler = Sampler(source, lambda _: True, 0.25, clock)
    for _ in range(20):
        sampler.step()
    assert sampler.interval_s == pytest.approx(2.0, rel=0.05)  # ten times the cost
    source.cost_s = 0.001
    for _ in range(30):
        sampler.step()
    assert sampler.interval_s == 0.25


def test_a_dear_first_poll_does_not_slow_the_next() -> None:
    clock = FakeTime()
    source = SlowSource(clock, 2.0)
    sampler = Sampler(source, lambda _: True, 0.25, clock)
    sampler.step()
    assert sampler.interval_s == 0.25


def test_the_loop_ends_when_nobody_takes_samples() -> None:
    taken: list[ev.DeviceSample] = []

    def take(got: ev.DeviceSample) -> bool:
        taken.append(got)
        return len(taken) < 3

    Sampler(ScriptedSource([sample(at) for at in range(9)]), take, 0.05).run()
    assert [got.t for got in taken] == [0, 1, 2]


def test_intervals_are_kept_within_reason() -> None:
    source = ScriptedSource([sample(0)])
    assert Sampler(source, lambda _: True, 0.0).interval_s == 0.05
    assert Sampler(source, lambda _: True, 1e9).interval_s == 30


def test_the_cost_of_late_readings_is_reported_with_the_next_sample() -> None:
    clock, fake = Clock(), FakeNvml()
    costly = ("nvmlDeviceGetPcieThroughput",)
    fake.before = lambda name: clock.advance(0.021 if name in costly else 0.0)
    source = DeviceSource(cards_of(fake, clock), PsutilHost(), clock)
    assert source.poll().cost_ms == 0
    source.catch_up()
    assert source.poll().cost_ms == pytest.approx(42, abs=1)


def test_the_host_is_read_without_a_card() -> None:
    host = PsutilHost()
    assert host.read().cpu_percent is None  # needs an interval
    now = host.read()
    assert now.cpu_percent is not None
    assert now.memory_used_bytes is not None
    assert now.memory_total_bytes is not None
    assert 0 < now.memory_used_bytes < now.memory_total_bytes


def test_slots_are_due_by_period_cost_and_failure() -> None:
    slot = Slot(1.0)
    assert slot.is_due(0.0)
    slot.done(10.0, 0.001)
    assert not slot.is_due(10.5)
    assert slot.is_due(11.0)
    slot.done(11.0, 1.0)
    assert slot.due_s > 25  # its share of the time stays small
    fresh = Slot(0.0)
    pauses = []
    for _ in range(9):
        fresh.failed(0.0, 0.0, permanent=False)
        pauses.append(fresh.due_s)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    fresh.failed(0.0, 0.0, permanent=True)
    assert fresh.due_s == 60


def test_a_replay_keeps_the_pace_of_its_recording() -> None:
    clock = Clock()
    recording = [sample(int(at * 1e9), power=100 * at) for at in range(5)]
    replay = ReplaySource(recording, clock)
    seen = []
    for _ in range(4):
        got = replay.poll()
        seen.append((got.t, got.cards[0].metrics["power"].value))
        clock.advance(2)
    start = seen[0][0]
    assert [(t - start) / 1e9 for t, _ in seen] == [0, 2, 4, 6]
    assert [power for _, power in seen] == [0, 200, 400, 0]


def test_samples_that_came_due_together_are_merged() -> None:
    clock = Clock()
    replay = ReplaySource([sample(0, power=1), sample(1, energy=5), sample(2, power=2)], clock)
    metrics = replay.poll().cards[0].metrics
    assert (metrics["power"].value, "energy" in metrics) == (1, False)
    clock.advance(1)
    metrics = replay.poll().cards[0].metrics
    assert (metrics["power"].value, metrics["energy"].value) == (2, 5)


def test_a_recording_passes_over_what_is_no_sample(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    path.write_bytes(ev.encode(sample(1)) + b"garbage\n" + ev.encode(ev.Log(message="x")) + b"{")
    assert [got.t for got in read_recording(path)] == [1]
    with pytest.raises(ValueError, match="no samples"):
        ReplaySource([])
