"""What the card did in a case stays known, however long ago the case ran."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from llmprof.core import events as ev
from llmprof.core.figures.card_memory import memory_while_measured
from llmprof.core.figures.case_device import CaseDevice, disturbances, join_case
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import ModelShape
from llmprof.core.state.histories import NEWEST_READINGS, OLD, READINGS_AT_ONCE
from llmprof.core.state.position_ranges import Stretches
from llmprof.core.state.reducer import Reducer
from llmprof.core.state.view import RunView

S = 1_000_000_000
UUID = "1a2b3c4d-d72c-4106-c12f-20bd9faed9f6"
SHAPE = ModelShape(name="toy", d_model=64, d_ff=128, num_layers=2, num_heads=4)
CASE = Case(model=SHAPE, batch_size=4, context_length=128)
STRANGER = ev.CardProcess(pid=77, user="eve", command="mine.py", memory_bytes=2**30)


def sample(t: int, metrics: dict[str, float], people: tuple[ev.CardProcess, ...] | None = None,
           uuid: str = UUID) -> ev.DeviceSample:  # fmt: skip
    made = {name: ev.Metric(value) for name, value in metrics.items()}
    card = ev.CardSample(index=0, uuid=uuid, name="H100", metrics=made, processes=people)
    return ev.DeviceSample(t=t, host=ev.HostSample(cpu_percent=1.0), cards=(card,))


def plan(cases: int) -> Iterator[ev.AnyEvent]:
    yield ev.Segment(t=0, boot_id="a", wall_ns=1, pid=1, version="0")
    experiment = Experiment(name="x", models=(SHAPE,))
    yield ev.RunStarted(t=0, run_id="r", experiment=experiment, cases=(CASE,) * cases, command=())
    yield ev.Environment(t=0, device="cuda:0", device_name="H100", device_uuid=UUID)


def case(index: int, first_s: float, last_s: float, steps: int) -> Iterator[ev.AnyEvent]:
    length = (last_s - first_s) / steps
    yield ev.CaseStarted(t=round((first_s - 2) * S), case=index, pid=1)
    for at in range(steps):
        start = round((first_s + at * length) * S)
        yield ev.StepDone(
            t=start + round(length * S), case=index, index=at, warmup=False, start_ns=start,
            wall_ms=1e3 * length, total_ms=1e3 * length,
            device_ms=(1e3 * length, None, None, None, None),
            host_ms=(1.0, None, None, None, None),
        )  # fmt: skip
    yield ev.CaseDone(t=round((last_s + 1) * S), case=index)


def reduced(*streams: Iterator[ev.AnyEvent]) -> RunView:
    reducer = Reducer()
    for event in sorted(itertools.chain(*streams), key=lambda event: event.t):
        reducer.apply(event)
    return reducer.view()


def day(hours: float, at: Callable[[float], ev.DeviceSample]) -> Iterator[ev.AnyEvent]:
    return (at(tick / 4) for tick in range(int(hours * 3600 * 4)))


def busy(t: float) -> ev.DeviceSample:
    """A card whose every figure moves, with a stranger on it for a while."""
    noise = int(4 * t) * 2654435761 % 2**32 / 2**32  # Knuth's multiplicative hash
    metrics = {
        "power": 300 + 400 * noise,
        "energy": 1e6 + 500 * t,
        "sm_clock": 1980 - 700 * noise,
        "throttle": (0.0, 0.0, 4.0, 68.0)[int(4 * noise)],
        "utilization": 80 + 20 * noise,
        "memory_used": 2**30 * (1 + noise),
        "power_limit": 700.0 if t < 3600 else 500.0,
        "other_processes": float(40 <= t < 60 or t > 3600),
        "other_utilization": 50.0 if 40 <= t < 60 or t > 3600 else 0.0,
    }
    people = (STRANGER,) if 40 <= t < 60 else ()
    if t > 600:  # somebody comes and goes every few seconds
        people = (ev.CardProcess(pid=int(t / 4), command="other.py"),)
    return sample(round(t * S), metrics, people if t % 2 == 0 else None)


def alike(a: CaseDevice, b: CaseDevice) -> None:
    for name in ("throttled_s", "block_s", "power_limit", "sm_clock_max"):
        assert getattr(a, name) == getattr(b, name), name
    for name in ("power", "sm_clock", "utilization", "memory_used"):
        left, right = getattr(a, name), getattr(b, name)
        assert left is not None
        assert replace(left, mean=0) == replace(right, mean=0), name
        assert left.mean == pytest.approx(right.mean, rel=1e-12)
    assert a.energy is not None
    assert b.energy is not None
    assert a.energy == replace(b.energy, mean_w=a.energy.mean_w)
    assert (a.throttle_reasons, a.marks, a.others) == (b.throttle_reasons, b.marks, b.others)


def test_a_case_of_eight_hours_ago_has_the_figures_it_had_alone() -> None:
    first = list(case(0, 20.0, 80.0, 600))
    alone = reduced(plan(2), iter(first), day(100 / 3600, busy))
    late = reduced(
        plan(2), iter(first), case(1, 8 * 3600 - 60.0, 8 * 3600 - 30.0, 300), day(8, busy)
    )
    was, now = join_case(alone, alone.cases[0]), join_case(late, late.cases[0])
    alike(now, was)
    assert now.throttled_s
    assert now.power_limit == 700
    assert now.others == (STRANGER,)
    assert 0 < now.shared_steps < 600
    assert "pid 77, eve, mine.py" in disturbances(late, now)[-1]
    assert join_case(late, late.cases[1]).power_limit == 500
    for series in late.cards[0].series.values():
        assert len(series) <= NEWEST_READINGS + READINGS_AT_ONCE + OLD
    assert len(late.cards[0].others) <= 256


def test_a_case_longer_than_readings_are_kept_is_whole() -> None:
    seconds = 3600.0

    def at(t: float) -> ev.DeviceSample:
        early = t < 700
        metrics = {"power": 600.0 if early else 300.0, "throttle": 4.0 if early else 0.0}
        return sample(round(t * S), {**metrics, "energy": 500 * t})

    view = reduced(plan(1), case(0, 100.0, 100 + seconds, 3600), day(3800 / 3600, at))
    got = join_case(view, view.cases[0])
    assert got.power is not None
    assert got.power.readings == 4 * seconds - 3  # but those of the first second reach out
    assert got.power.mean == pytest.approx((599 * 600 + 3000 * 300) / 3599, abs=0.1)
    assert got.throttled_s == pytest.approx(600)
    assert got.throttled_steps == 600
    assert got.energy is not None
    assert got.energy.mean_w == pytest.approx(500)


def test_figures_do_not_depend_on_when_they_were_looked_at() -> None:
    events = sorted(
        itertools.chain(plan(1), case(0, 20.0, 80.0, 600), day(90 / 3600, busy)),
        key=lambda event: event.t,
    )
    reducer, seen = Reducer(), 0
    for at, event in enumerate(events):
        reducer.apply(event)
        if at % 50 == 0 and len(reducer.view().cases):
            seen += join_case(reducer.view(), reducer.view().cases[0]).reason is None
    assert seen > 5
    often, once = reducer.view(), reduced(iter(events))
    alike(join_case(often, often.cases[0]), join_case(once, once.cases[0]))


def test_a_run_resumed_on_another_machine_keeps_what_the_first_card_did() -> None:
    first = (*plan(2), *case(0, 20.0, 80.0, 600), *day(80.5 / 3600, busy))
    moved = ev.Segment(t=5 * S, boot_id="b", wall_ns=1, pid=1, version="0")
    other = ev.Environment(t=6 * S, device="cuda:0", device_name="A100", device_uuid="feed")
    again = (
        sample(t * S, {"power": 100.0, "throttle": 0.0}, uuid="GPU-feed") for t in range(7, 60)
    )
    second = sorted((*case(1, 20.0, 40.0, 20), *again), key=lambda event: event.t)
    reducer = Reducer()
    for event in (*sorted(first, key=lambda event: event.t), moved, other, *second):
        reducer.apply(event)
    view = reducer.view()
    before, after = (join_case(view, state) for state in view.cases)
    assert before.power is not None
    assert before.power.mean > 400
    assert before.others == (STRANGER,)
    assert after.power is not None
    assert (after.power.minimum, after.power.maximum) == (100, 100)
    assert view.cards[0].series["power"].points()[0][0] == 7 * S


def test_a_retried_case_forgets_its_first_attempt() -> None:
    view = reduced(plan(1), case(0, 20.0, 80.0, 600), case(0, 300.0, 330.0, 10), day(0.1, busy))
    got = join_case(view, view.cases[0])
    assert got.block_s == pytest.approx(30)
    assert got.others == ()
    assert got.throttled_steps <= 10


def test_the_highest_memory_of_a_case_is_kept() -> None:
    def at(t: float) -> ev.DeviceSample:
        high = 10.0 if 30 <= t < 31 else 4.0 if t < 100 else 50.0
        return sample(round(t * S), {"memory_used": high * 2**30, "other_memory": 2.0**30})

    edge = ev.MemoryEdge(phase="forward", allocated_bytes=1, peak_bytes=2**30, reserved_bytes=2**31)
    memory = ev.MemoryStep(t=25 * S, case=0, edges=(edge,), source="cuda allocator")
    view = reduced(plan(1), case(0, 20.0, 40.0, 20), day(2.0, at), iter([memory]))
    found = memory_while_measured(view, view.cases[0])
    assert found is not None
    assert (found.used, found.others) == (10 * 2**30, 2**30)


def test_stretches_are_a_set_in_order() -> None:
    chance = random.Random(3)
    for _ in range(50):
        left, right = (sorted({chance.randrange(90) for _ in range(30)}) for _ in range(2))
        made = Stretches(left)
        made.extend(position for position in left[-2:])  # again
        assert list(made) == left
        assert len(made) == len(left)
        assert [at in made for at in range(90)] == [at in left for at in range(90)]
        assert list(made.union(Stretches(right))) == sorted({*left, *right})
        for most in (1, 3, 7, 1000):
            stride = -(-len(left) // most)
            assert made.thinned(most) == left[:: max(1, stride)]
        twin = made.copy()
        twin.extend([200])
        assert 200 not in made
