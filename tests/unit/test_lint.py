"""Every check finds what is planted for it, and says nothing of an honest run."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from llmprof.core import events as ev
from llmprof.core.lint import EXPLAINED, RULES, lint, verdicts
from llmprof.core.spec.experiment import Experiment
from llmprof.core.spec.own_model import OwnModel
from llmprof.core.spec.shape import ModelShape
from llmprof.core.state.view import CaseState
from llmprof.core.stats.stopping import steps_for
from llmprof.core.stats.student import student_t
from tests.builders.planted import (
    CPU,
    GPU,
    SHAPE,
    Times,
    around,
    case,
    failed,
    memory,
    observed,
    one,
    run,
    view,
)

HONEST: Times = {
    "forward": around(20.0),
    "loss": around(0.5),
    "backward": around(40.0),
    "optimizer": around(15.0),
    "zero_grad": around(0.1),
}


def found(state: CaseState, environment: ev.Environment = GPU) -> dict[str, tuple[str, str]]:
    return {v.rule: (v.level, v.text) for v in verdicts(state, environment)}


def test_an_honest_run_has_no_warning() -> None:
    said = found(one(case(), HONEST))
    assert {level for level, _ in said.values()} == {"info"}
    assert said["stability"] == ("info", "very stable (CV 0.6 %)")


@pytest.mark.parametrize(
    ("fields", "changes", "words"),
    [
        ({}, {"tf32": True}, "fp32 was asked for, but TF32 was on"),
        ({"precision": "tf32"}, {"tf32": False}, "tf32 was asked for, but TF32 was off"),
        ({"precision": "bf16"}, {"logits_dtype": "float32"}, "the logits are float32"),
        ({}, {"batch_size": 1}, "batch size 1 was used instead of 4"),
        ({}, {"context_length": 64}, "context length 64 was used instead of 128"),
        ({}, {"parameters_changed": False}, "the optimizer changed no parameter"),
        ({}, {"qkv_gradients": False}, "Q, K or V has no gradient"),
        ({"attention": "sdpa"}, {"attention_backend": "math"}, "math fallback"),
    ],
)
def test_what_was_observed_is_not_what_was_asked(
    fields: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    asked = case(**fields)
    honest = found(one(asked, HONEST))
    assert "requested-observed" not in honest
    level, text = found(one(asked, HONEST, observed(0, asked, **changes)))["requested-observed"]
    assert level == "error"
    assert words in text


def test_steps_that_were_asked_but_not_run() -> None:
    asked = case(measure_steps=12, warmup_steps=3)
    short: Times = {"forward": [1.0], "backward": [2.0]}
    state = one(asked, HONEST, warmup=short)
    _, text = found(state)["requested-observed"]
    assert "10 measured steps instead of 12" in text
    assert "1 warm-up step instead of 3" in text


def test_what_a_quota_held_back_is_not_blamed_on_others() -> None:
    limited = msgspec.structs.replace(CPU, cpu_quota=1.5, threads=8)

    def said(environment: ev.Environment, **seen: float) -> dict[str, tuple[str, str]]:
        waited = observed(0, case(), cpu_wait_percent=40.0, **seen)
        return found(one(case(), HONEST, waited, environment=environment), environment)

    held = said(limited, throttled_periods=101, throttled_percent=41.0)
    assert "shared-cpu" not in held
    assert held["throttled"] == (
        "warning",
        "the quota of 1.5 CPUs held it back for 41 % of its time; 8 threads ask for more: "
        "OMP_NUM_THREADS=1 would not",
    )
    free = said(limited, throttled_periods=0, throttled_percent=0.0)
    assert "throttled" not in free
    assert "shared-cpu" in free
    assert "shared-cpu" in said(CPU)


@pytest.mark.parametrize("field", ["recompilations", "alloc_retries"])
def test_disturbed_measured_steps(field: str) -> None:
    asked = case()
    level, text = found(one(asked, HONEST, observed(0, asked, **{field: 2})))["disturbed"]
    assert level == "error"
    assert "2" in text


def test_seconds_under_a_ms_heading_exceed_the_peak() -> None:
    seconds: Times = {phase: [value / 1e3 for value in values] for phase, values in HONEST.items()}
    level, text = found(one(case(), seconds))["flops"]
    assert level == "error"
    assert "× the dense fp32 peak of H100-80GB (66.9 TFLOP/s)" in text


def test_a_forward_faster_than_the_card_by_a_fifth_is_found() -> None:
    forward = 0.4292e12 / 66.9e12 * 1e3  # ms at the peak, by DOMAIN's count of the forward
    slow: Times = {"forward": around(forward * 1.05)}
    fast: Times = {"forward": around(forward / 1.2)}
    asked = case(mode="forward")
    assert "flops" not in found(one(asked, slow))
    assert "forward: 80.3 TFLOP/s would be 1.2 ×" in found(one(asked, fast))["flops"][1]


def test_mfu_above_one_is_an_error_though_no_phase_is_impossible() -> None:
    # The masked half of a fused attention counts in MFU, but a kernel may skip it.
    state = one(case(mode="forward"), {"forward": around(6.0)}, environment=CPU)
    said = {v.rule: v for v in verdicts(state, CPU, given_peak=60.0)}
    assert said["flops"].level == "error"
    assert "mfu" not in said
    short = msgspec.structs.replace(case(mode="forward"), attention="sdpa", context_length=512)
    state = one(short, {"forward": around(28.0)})
    said = {v.rule: v for v in verdicts(state, GPU, given_peak=63.0)}
    assert said["mfu"].level == "error"
    assert said["mfu"].text.startswith("MFU 102 %")


def test_an_optimizer_that_outruns_the_memory() -> None:
    gbs = 28 * SHAPE.parameters / 1e9
    possible: Times = {**HONEST, "optimizer": around(gbs / 3352 * 1e3 * 1.05)}
    impossible: Times = {**HONEST, "optimizer": around(gbs / 3352 * 1e3 * 0.9)}
    assert "bytes" not in found(one(case(), possible))
    level, text = found(one(case(), impossible))["bytes"]
    assert level == "error"
    assert text.startswith("optimizer: at least 3,724 GB/s would be 1.11 ×")


def test_raw_attention_that_outruns_the_memory_and_fused_that_may() -> None:
    width = ModelShape(name="d=64", d_model=64, d_ff=1, num_layers=1, num_heads=1, vocab_size=1)
    raw = case(
        model=width,
        probe="attention",
        mode="forward-backward",
        batch_size=8,
        context_length=16_384,
    )
    quick: Times = {"forward": around(15.0), "backward": around(30.0)}
    assert found(one(raw, quick))["bytes"][1].startswith("forward: at least 4,581 GB/s")
    assert "bytes" not in found(one(msgspec.structs.replace(raw, attention="sdpa"), quick))


def test_an_attention_kernel_that_was_asked_for_is_no_fallback() -> None:
    width = ModelShape(name="d=64", d_model=64, d_ff=1, num_layers=1, num_heads=1, vocab_size=1)
    asked = case(
        model=width, probe="attention", mode="forward", attention="sdpa", sdpa_backend="math"
    )
    quick: Times = {"forward": around(15.0)}
    honest = observed(0, asked, attention_backend="math")
    assert "requested-observed" not in found(one(asked, quick, honest))
    other = observed(0, asked, attention_backend="flash")
    level, text = found(one(asked, quick, other))["requested-observed"]
    assert (level, text) == ("error", "SDPA's math kernel was asked for, but flash ran")


def test_an_unknown_card_has_no_limit_but_a_calibrated_one_warns() -> None:
    quick: Times = {"forward": around(1.0)}
    asked = case(mode="forward")
    other = msgspec.structs.replace(GPU, device_name="Some Card")
    assert not {"flops", "mfu", "bytes"} & found(one(asked, quick, environment=other), other).keys()
    ceilings = ev.Ceilings(matmul_tflops={"fp32": 50.0}, copy_gbs=3000.0)
    calibrated = msgspec.structs.replace(other, ceilings=ceilings)
    level, text = found(one(asked, quick, environment=calibrated), calibrated)["flops"]
    assert level == "warning"
    assert "calibrated fp32 matmul rate" in text


def test_backward_by_subtraction_is_called_out() -> None:
    asked = case(mode="forward-backward")
    wrong: Times = {"forward": around(20.0), "loss": around(0.5), "backward": around(7.0)}
    level, text = found(one(asked, wrong))["backward-ratio"]
    assert level == "warning"
    assert "backward takes 0.35 × the time of the forward" in text
    assert "backward-ratio" not in found(one(asked, wrong, host=0.95))  # launches, not arithmetic


def test_a_backward_that_computes_again_may_take_longer() -> None:
    again = case(mode="forward-backward", checkpoint=1)
    for backward, said in ((90.0, False), (120.0, True)):
        times: Times = {"forward": around(20.0), "loss": around(0.5), "backward": around(backward)}
        assert ("backward-ratio" in found(one(again, times))) is said
    text = found(one(again, times))["backward-ratio"][1]
    assert text.endswith("for 2 to 3 × its arithmetic, with what is computed again")
    mine = case(mode="forward-backward", model=OwnModel("m:f", "/m.py", "/", "m", "f"))
    text = found(one(mine, times))["backward-ratio"][1]
    assert text.endswith(
        "about 2 × its arithmetic, where all of an own model's weights are trained"
    )


def test_a_spill_to_system_memory_stands_out_beside_its_neighbours() -> None:
    sizes = [2, 4, 8, 16]
    times = [30.0, 55.0, 105.0, 17_800.0]
    cases = [case(batch_size=size, mode="forward-backward") for size in sizes]
    events: list[ev.Event] = []
    for index, (asked, ms) in enumerate(zip(cases, times, strict=True)):
        parts: Times = {"forward": around(ms / 3), "backward": around(2 * ms / 3)}
        events += run(index, asked, parts, memory(index, {"start": 1 << 30, "forward": 79 << 30}))
    said = lint(view(cases, events))
    rules = {index: {v.rule: v.text for v in each} for index, each in said.items()}
    assert all("cliff" not in rules[index] for index in (0, 1, 2))
    assert "its peak memory is 79.0 of 80.0 GiB" in rules[3]["cliff"]


def test_more_work_in_less_time_is_called_out() -> None:
    cases = [case(context_length=length, mode="forward") for length in (128, 512)]
    events = run(0, cases[0], {"forward": around(20.0)})
    events += run(1, cases[1], {"forward": around(10.0)})
    said = lint(view(cases, events, environment=CPU))
    assert "it did 4.18 × the work of case 1 in 0.5 × its time" in {v.text for v in said[1]}
    assert "scaling" not in {v.rule for v in said[0]}


def test_a_cell_measured_elsewhere_is_named() -> None:
    cases = [case(mode="forward"), case(mode="forward-grad")]
    other = msgspec.structs.replace(GPU, t=9, driver="570")
    events = [
        *run(0, cases[0], {"forward": around(20.0)}),
        other,
        *run(1, cases[1], {"forward": around(20.0)}),
    ]
    state = view(cases, events)
    assert state.environment is not None
    assert state.environment.driver == "580"
    said = lint(state)
    assert "elsewhere" not in {v.rule for v in said[0]}
    assert "measured elsewhere: driver 580 against 570" in {v.text for v in said[1]}


def test_a_cold_first_step_and_a_drift() -> None:
    cold: Times = {"forward": [80.0, *around(20.0, 9)]}
    said = found(one(case(mode="forward"), cold))
    assert "took 4.0 × the median of the others after 1 warm-up step" in said["warming"][1]
    rising: Times = {"forward": [20.0 + 0.5 * at for at in range(10)]}
    said = found(one(case(mode="forward"), rising))
    text = "steps became 17 % longer from the first third to the last"
    assert said["drift"] == ("warning", text)
    assert "warming" not in said


def test_few_samples() -> None:
    few: Times = {"forward": [20.0, 22.0, 19.0]}
    _, text = found(one(case(mode="forward", measure_steps=3), few))["few-samples"]
    assert text == (
        "the mean is known within 19 % (95 % interval) after 3 steps; --measure-steps 12 would "
        "bring that to about 5 %, as far as so few steps can tell"
    )
    single = one(case(mode="forward", measure_steps=1), {"forward": [20.0]})
    assert "n/a: one step" in found(single)["stability"][1]


@pytest.mark.parametrize(
    ("probe", "times", "advice"),
    [
        (
            "kernels",
            [20.0, 22.0, 19.0],
            "--profile-steps 12 would bring that to about 5 %, as far as so few",
        ),
        ("kernels", [20.0, 60.0, 9.0], "not even 100 steps, the most there may be, would"),
        ("timing", [20.0, 60.0, 9.0], "--measure-steps 1"),
        ("timing", [20e3, 60e3, 9e3], "first find what disturbs them (another process, a"),
    ],
)
def test_advice_on_samples_can_be_followed(probe: str, times: list[float], advice: str) -> None:
    asked = case(mode="forward", measure_steps=3, probe=probe)
    _, text = found(one(asked, {"forward": times}))["few-samples"]
    assert advice in text
    number = re.search(r"--(?:profile|measure)-steps (\d+)", text)
    if number is not None:
        spec = Experiment(
            name="x",
            models=(SHAPE,),
            probe=asked.probe,
            measure_steps=int(number[1]),
            profile_steps=int(number[1]) if probe == "kernels" else 3,
        )
        assert spec.cases()[0].measure_steps == int(number[1]) > 3


@pytest.mark.parametrize("jump", [0.0, 6.0])
def test_a_cold_first_step_is_no_reason_for_thousands_of_steps(jump: float) -> None:
    others = [time + jump * (at % 2) for at, time in enumerate(around(20.0, 9))]
    state = one(case(mode="forward"), {"forward": [400.0, *others]})
    text = found(state)["few-samples"][1]
    assert "the first step was still cold: with more warm-up, " in text
    number = re.search(r"--measure-steps (\d+)", text)
    assert (number is None) is (jump == 0)
    assert number is None or 10 <= int(number[1]) < 60


def test_a_trend_is_not_averaged_out_by_more_steps() -> None:
    """Neither where all steps have one nor where those after a cold first step do."""
    falling = [30.0 - 1.5 * at for at in range(10)]
    for times in (falling, [400.0, *falling]):
        text = found(one(case(mode="forward"), {"forward": times}))["few-samples"][1]
        assert "steps have a trend, which more of them do not average out" in text
        assert "--measure-steps" not in text
        assert ("the first step was still cold, and" in text) == (len(times) > 10)
    scattered = [20.0, 24.0] * 5
    text = found(one(case(mode="forward"), {"forward": scattered}))["few-samples"][1]
    assert "; --measure-steps 17 would bring that to about 5 %" in text


def test_an_interval_beyond_the_goal_is_not_shown_as_the_goal() -> None:
    times = [20.0, 22.6, 20.0, 22.6, 20.0, 22.6]
    text = found(one(case(mode="forward"), {"forward": times}))["few-samples"][1]
    shown = re.search(r"within ([\d.]+) %", text)
    assert shown is not None
    assert float(shown[1]) > 5


@pytest.mark.parametrize("target", [1.0, 5.0])
@pytest.mark.parametrize("cv", [0.5, 4.0, 12.0, 40.0])
def test_steps_for_a_target_are_the_least_that_meet_it(cv: float, target: float) -> None:
    n = steps_for(cv, target)
    assert student_t(n - 1) * cv / n**0.5 <= target
    if n > 2:
        assert student_t(n - 2) * cv / (n - 1) ** 0.5 > target


def test_an_unmet_target_is_named() -> None:
    asked = case(mode="forward", target_percent=1.0)
    stop = "target not met within 15 s: mean known within 3 % (95 % interval), target 1 %"
    said = found(one(asked, {"forward": around(20.0)}, observed(0, asked, measure_stop=stop)))
    assert said["unmet"] == ("warning", stop)
    met = observed(0, asked, measure_stop="mean known within 0.8 % (95 % interval) after 10 steps")
    assert "unmet" not in found(one(asked, {"forward": around(20.0)}, met))


def test_launch_bound_is_a_cards_alone() -> None:
    state = one(case(mode="forward"), {"forward": around(20.0)}, host=0.97)
    assert found(state)["launch-bound"][0] == "warning"
    state = one(case(mode="forward"), {"forward": around(20.0)}, host=0.97, environment=CPU)
    assert "launch-bound" not in found(state, CPU)


def test_phases_of_one_step_are_told_apart() -> None:
    """As on a card at small sizes: forward and backward wait for the host, the optimizer not."""
    asked = case(mode="train")
    times: Times = {"forward": around(30.0), "backward": around(50.0), "optimizer": around(20.0)}
    early = one(asked, times, host={"forward": 0.99, "backward": 1.0, "optimizer": 0.3})
    assert early.host_share == pytest.approx(0.857, abs=0.01)
    level, text = found(early)["launch-bound"]
    said = "launch-bound in forward and backward, 80 % of the step: the host spends 86 % "
    assert (level, text) == ("warning", said + "of the step enqueueing work")
    late = one(asked, times, host={"forward": 0.99, "backward": 0.5, "optimizer": 0.3})
    level, text = found(late)["launch-bound"]
    assert level == "info"
    assert text.startswith("GPU-bound except in forward, 30 % of the step: ")
    busy = one(asked, times, host={"forward": 0.5, "backward": 0.5, "optimizer": 0.3})
    assert found(busy)["launch-bound"][1].startswith("GPU-bound: the host spends 46 %")


@pytest.mark.parametrize("ahead", [0.2, 0.5, 0.8])
def test_a_host_that_waits_for_room_in_the_queue_sets_no_pace(ahead: float) -> None:
    """As at 2.7B: far ahead after the forward, it then launches only as fast as the card runs."""
    asked = case(mode="train")
    times: Times = {"forward": around(85.0), "backward": around(180.0), "optimizer": around(100.0)}
    full = one(asked, times, host={"forward": ahead, "backward": 0.97, "optimizer": 0.97})
    assert found(full)["launch-bound"][0] == "info"
    assert found(full)["launch-bound"][1].startswith("GPU-bound: the host spends ")
    slow = one(asked, times, host={"forward": ahead, "backward": 1.5, "optimizer": 1.0})
    assert "backward" in found(slow)["launch-bound"][1].split(":")[0]


def test_every_rule_is_explained() -> None:
    rules = set(EXPLAINED)
    assert len(rules) >= len(RULES)
    assert {"flops", "mfu", "bytes", "cliff", "scaling", "elsewhere", "device", "drift"} <= rules
    assert all(text.endswith(".") for text in EXPLAINED.values())


def test_a_case_without_figures_has_no_verdict() -> None:
    state = view([case()], failed(0, kind="oom", message="out of memory", phase="backward"))
    assert lint(state) == {0: ()}
