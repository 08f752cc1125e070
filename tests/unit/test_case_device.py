"""Device samples joined to steps: what the card did while a case was measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from llmprof.core import events as ev
from llmprof.core.figures.case_device import (
    CaseDevice,
    describe_process,
    disturbances,
    join_case,
    join_run,
    other_processes,
    run_card,
)
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.shape import ModelShape
from llmprof.core.state import time_spans as iv
from llmprof.core.state.reducer import Reducer
from llmprof.core.state.view import RunView

S = 1_000_000_000
UUID = "1a2b3c4d-d72c-4106-c12f-20bd9faed9f6"
SHAPE = ModelShape(name="toy", d_model=64, d_ff=128, num_layers=2, num_heads=4)
CASE = Case(model=SHAPE, batch_size=4, context_length=128, measure_steps=100)
STRANGER = ev.CardProcess(pid=77, user="eve", command="mine.py", memory_bytes=2**30)


def card(metrics: dict[str, float | None], **more: object) -> ev.CardSample:
    made = {
        name: ev.Metric(value, None if value is not None else "not told")
        for name, value in metrics.items()
    }
    return ev.CardSample(index=1, uuid=f"GPU-{UUID}", name="H100", metrics=made, **more)  # type: ignore[arg-type]


def run(
    at: Callable[[float], ev.CardSample],
    *,
    seconds: float = 10.0,
    steps: int = 100,
    every_s: float = 0.25,
    environment: ev.Environment | None = None,
) -> RunView:
    """A run of one case whose measured steps fill 0..seconds, sampled from -2 s to 2 s after."""
    reducer = Reducer()
    experiment = Experiment(name="x", models=(SHAPE,))
    device = environment or ev.Environment(device="cuda:0", device_name="H100", device_uuid=UUID)
    reducer.apply(ev.RunStarted(t=0, run_id="r", experiment=experiment, cases=(CASE,), command=()))
    reducer.apply(msg(device))
    reducer.apply(ev.CaseStarted(t=3 * S, case=0, pid=1))
    base, length = 10 * S, seconds / steps
    samples = [i * every_s - 2 for i in range(round((seconds + 4) / every_s) + 1)]
    timeline: list[tuple[int, ev.AnyEvent]] = [
        (
            base + round(t * S),
            ev.DeviceSample(t=base + round(t * S), host=ev.HostSample(), cards=(at(t),)),
        )
        for t in samples
    ]
    for index in range(steps):
        start = base + round(index * length * S)
        step = ev.StepDone(
            t=start + round(length * S),
            case=0,
            index=index,
            warmup=False,
            start_ns=start,
            wall_ms=length * 1e3,
            total_ms=length * 1e3,
            device_ms=(length * 1e3, None, None, None, None),
            host_ms=(1.0, None, None, None, None),
        )
        timeline.append((step.t, step))
    for _, event in sorted(timeline, key=lambda pair: pair[0]):
        reducer.apply(event)
    reducer.apply(ev.CaseDone(t=base + round((seconds + 2.5) * S), case=0))
    return reducer.view()


def msg(event: ev.AnyEvent) -> ev.AnyEvent:
    return ev.decode(ev.encode(event))


def joined(at: Callable[[float], ev.CardSample], **more: object) -> CaseDevice:
    view = run(at, **more)  # type: ignore[arg-type]
    return join_case(view, view.cases[0])


def test_levels_are_those_of_the_measured_steps_alone() -> None:
    got = joined(
        lambda t: card({"sm_clock": 1500.0 if 0 <= t <= 10 else 200.0, "temperature": 60 + t})
    )
    assert got.card == 1
    assert got.block_s == pytest.approx(10)
    assert got.sm_clock is not None
    assert (got.sm_clock.minimum, got.sm_clock.maximum) == (1500, 1500)
    assert got.sm_clock.readings == 41
    assert got.temperature is not None
    assert got.temperature.mean == pytest.approx(65)


def test_averaged_readings_count_only_when_their_window_lies_inside() -> None:
    got = joined(lambda t: card({"power": 700.0 if 1 <= t <= 10 else 100.0, "utilization": 50.0}))
    assert got.power is not None
    assert got.power.minimum == 700
    assert not got.power.reaches_out
    short = joined(lambda t: card({"power": 300.0}), seconds=0.6, steps=6)
    assert short.power is not None
    assert short.power.reaches_out


def test_the_cards_own_window_is_used() -> None:
    got = joined(
        lambda t: card({"utilization": 90.0, "utilization_window": 166.0}), seconds=0.5, steps=5
    )
    assert got.utilization is not None
    assert not got.utilization.reaches_out
    assert got.utilization_window_ms == 166


def test_no_reading_in_a_tiny_block_has_a_reason() -> None:
    got = joined(lambda t: card({"sm_clock": 1.0}) if t != 0 else card({}), seconds=0.01, steps=10)
    assert got.sm_clock is None
    assert "no reading in the 0.01 s" in got.missing["sm_clock"]
    assert got.energy is None
    assert got.throttled_s is None


def test_a_metric_that_the_card_does_not_tell_keeps_its_reason() -> None:
    got = joined(lambda t: card({"power": None, "sm_clock": 1.0}))
    assert got.power is None
    assert got.missing["power"] == "not told"
    assert got.missing["energy"].startswith("no reading")


def test_energy_comes_from_the_counter_with_its_error() -> None:
    got = joined(lambda t: card({"energy": 1000 + 400 * t, "power": 400.0}))
    assert got.energy is not None
    assert got.energy.source == "energy counter"
    assert got.energy.mean_w == pytest.approx(400)
    assert got.energy.joules_per_step == pytest.approx(40)
    assert got.energy.joules_per_token == pytest.approx(40 / 512)
    assert got.energy.error_percent == pytest.approx(1)
    assert got.energy.note == ""


def test_a_short_block_has_no_energy_but_the_reason() -> None:
    got = joined(lambda t: card({"energy": 400 * (t + 9)}), seconds=0.5, steps=5)
    assert got.energy is None
    assert "too short: the error would be 20 %" in got.missing["energy"]


def test_a_reset_counter_gives_no_negative_energy() -> None:
    def at(t: float) -> ev.CardSample:
        return card({"energy": 5000 + 100 * t if t < 4 else None if t < 4.3 else 100 * t})

    got = joined(at)
    assert got.energy is not None
    assert got.energy.mean_w == pytest.approx(100)
    unmarked = joined(lambda t: card({"energy": 5000 + 100 * t if t < 4 else 100 * t}))
    assert unmarked.energy is not None
    assert unmarked.energy.mean_w == pytest.approx(100)


def test_without_a_counter_power_is_integrated_and_said_so() -> None:
    got = joined(lambda t: card({"energy": None, "power": 300.0}), seconds=20.0)
    assert got.energy is not None
    assert got.energy.source == "power integrated (estimated)"
    assert got.energy.joules_per_step == pytest.approx(60)
    assert got.energy.error_percent == pytest.approx(5)


def test_power_and_counter_that_disagree_are_named() -> None:
    got = joined(lambda t: card({"energy": 1000 + 400 * t, "power": 600.0}))
    assert got.energy is not None
    assert got.energy.note == "power readings average 600 W, +50 % against the counter"


def test_a_module_counter_is_named() -> None:
    def at(t: float) -> ev.CardSample:
        return ev.CardSample(
            index=1, uuid=UUID, name="NVIDIA GH200 480GB", metrics={"energy": ev.Metric(9e3 + t)}
        )

    got = joined(at)
    assert got.energy is not None
    assert got.energy.source == "energy counter of the whole module"


def test_throttle_time_is_charged_to_the_steps_it_overlapped() -> None:
    got = joined(lambda t: card({"throttle": 0x40 if 2 <= t < 3 else 0x1}))
    assert got.throttled_s == pytest.approx(1)
    assert got.throttle_reasons == {"hardware thermal": pytest.approx(1)}
    assert [mark.position for mark in got.marks] == list(range(20, 30))
    assert all(mark.throttled and not mark.shared for mark in got.marks)
    assert got.mark(20) is not None
    assert got.mark(19) is None


def test_throttling_that_was_not_read_is_unknown_and_not_none() -> None:
    assert joined(lambda t: card({"throttle": None})).throttled_s is None
    assert joined(lambda t: card({"throttle": 0x1})).throttled_s == 0


def stranger_between(
    start: float, end: float, share: float | None
) -> Callable[[float], ev.CardSample]:
    def at(t: float) -> ev.CardSample:
        there = start <= t < end
        return card(
            {
                "other_processes": float(there),
                "other_utilization": share if there else 0.0,
                "throttle": 0,
            },
            processes=(STRANGER,) if there else (),
        )

    return at


def test_steps_beside_the_work_of_others_are_marked_and_the_others_named() -> None:
    view = run(stranger_between(5, 6, 80.0))
    got = join_case(view, view.cases[0])
    assert got.others == (STRANGER,)
    assert got.shared_steps == 11  # from the reading before the first that saw it
    assert {mark.position for mark in got.marks} == set(range(47, 58))
    assert other_processes(view) == (STRANGER,)
    (said,) = disturbances(view, got)
    assert said == (
        "another process was on the card (pid 77, eve, mine.py): "
        "11 of 100 steps ran while it worked or may have"
    )


def test_others_whose_share_is_unknown_may_have_worked() -> None:
    assert joined(stranger_between(5, 6, None)).shared_steps == 11


def test_others_that_only_hold_memory_are_named_and_no_step_is_marked() -> None:
    view = run(stranger_between(5, 6, 0.0))
    got = join_case(view, view.cases[0])
    assert got.shared_steps == 0
    assert got.others == (STRANGER,)
    assert "only held memory" in disturbances(view, got)[0]


def test_a_nameless_pid_of_one_reading_is_a_process_that_ended_and_no_tenant() -> None:
    nameless = ev.CardProcess(pid=888, local=False)

    def at(t: float) -> ev.CardSample:
        return card({"throttle": 0}, processes=(nameless,) if 5 <= t < until else ())

    until = 7.0
    assert joined(at).others == ()
    until = 9.0
    assert joined(at).others == (nameless,)


def test_a_quiet_card_is_no_verdict() -> None:
    view = run(lambda t: card({"throttle": 0, "other_processes": 0}, processes=()))
    assert disturbances(view, join_case(view, view.cases[0])) == ()


@pytest.mark.parametrize(
    ("process", "words"),
    [
        (ev.CardProcess(pid=None), "unknown pid"),
        (ev.CardProcess(pid=3, local=False), "host pid 3"),
        (ev.CardProcess(pid=3, user="ada", command="x y"), "pid 3, ada, x y"),
    ],
)
def test_processes_in_words(process: ev.CardProcess, words: str) -> None:
    assert describe_process(process) == words


def test_the_card_is_the_one_that_torch_used() -> None:
    elsewhere = ev.Environment(device="cuda:0", device_name="x", device_uuid="feed")
    got = joined(lambda t: card({"power": 1.0}), environment=elsewhere)
    assert got.power is None
    assert got.reason == "torch's device is none of the cards that NVML lists"
    unnamed = ev.Environment(device="cuda:0", device_name="x")
    assert joined(lambda t: card({"power": 1.0}), environment=unnamed).card == 1
    cpu = run(
        lambda t: card({"power": 1.0}), environment=ev.Environment(device="cpu", device_name="c")
    )
    assert run_card(cpu) is None
    assert join_run(cpu)[0].reason == "the case runs on the CPU"


def test_a_run_without_anything_yet() -> None:
    reducer = Reducer()
    experiment = Experiment(name="x", models=(SHAPE,))
    reducer.apply(ev.RunStarted(run_id="r", experiment=experiment, cases=(CASE,), command=()))
    assert join_run(reducer.view())[0].reason == "the device is not known yet"
    reducer.apply(ev.Environment(device="cuda:0", device_name="x", device_uuid=UUID))
    sample = ev.DeviceSample(host=ev.HostSample(), cards_reason="NVML is missing")
    reducer.apply(sample)
    assert join_run(reducer.view())[0].reason == "NVML is missing"


def naive_touched(
    starts: Sequence[int], ends: Sequence[int], spans: Sequence[iv.Interval]
) -> list[int]:
    return [
        at
        for at, (start, end) in enumerate(zip(starts, ends, strict=True))
        if any(a < end and b > start for a, b in spans)
    ]


def test_intervals_agree_with_the_plain_definition() -> None:
    starts = list(range(0, 400, 7))
    ends = [start + 6 for start in starts]
    spans = iv.joined([(-5, 3), (3, 5), (20, 21), (27, 28), (100, 180), (395, 900)])
    assert spans[0] == (-5, 5)
    assert iv.touched(starts, ends, spans) == naive_touched(starts, ends, spans)
    assert iv.overlap_ns(spans, 0, 110) == 5 + 1 + 1 + 10
    assert math.isclose(iv.trapezoid([0, S, 3 * S], [0.0, 2.0, 2.0]), 5.0)
