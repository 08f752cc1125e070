"""Ratios with their intervals, and what may be said of two cases."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from llmprof.core import events as ev
from llmprof.core.figures.comparison import ONE_PROCESS, Comparison, compare
from llmprof.core.figures.losses import loss_difference, losses
from llmprof.core.figures.replicates import Replicated, configurations
from llmprof.core.report.comparisons import TOO_NOISY, ratio_cells, times
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState
from llmprof.core.stats.ratio import paired_ratio, ratio, ratio_of_processes
from llmprof.core.stats.student import holm, student_t, two_sided_p
from llmprof.core.stats.summary import over_processes, summarize
from llmprof.core.store.pack import open_view
from tests.builders.planted import Times, around, case, observed, run, steps, view

FIXTURES = Path(__file__).parent.parent / "fixtures"
FUSED = {"optimizer": "fused"}


# -------------------------------------------------------------------------- statistics


def test_a_ratio_and_its_interval() -> None:
    slow, fast = summarize([20.0, 21.0, 19.0, 20.0]), summarize([10.0, 10.5, 9.5, 10.0])
    found = ratio(slow, fast)
    assert found is not None
    assert found.value == pytest.approx(2.0)
    # Both relative standard errors are 0.02041; Welch's degrees of freedom are 6, t = 2.4469.
    assert found.half == pytest.approx(2.0 * 2.4469 * 0.02041 * 2**0.5, rel=1e-3)
    assert found.resolved
    assert not found.judged


def test_a_ratio_is_the_same_whichever_way_round() -> None:
    slow, fast = [100.0, 650.0, 360.0, 250.0], [40.0, 200.0, 120.0, 116.0]
    above, below = ratio_of_processes(slow, fast), ratio_of_processes(fast, slow)
    assert above.value == pytest.approx(1 / below.value)
    assert above.p == pytest.approx(below.p)
    assert above.inverse.low == pytest.approx(below.low)
    assert above.resolved is below.resolved


def test_one_sample_gives_no_interval() -> None:
    found = ratio(summarize([20.0]), summarize([10.0]))
    assert found is not None
    assert (found.half, found.low, found.resolved) == (None, None, False)
    assert ratio(None, summarize([1.0])) is None


def test_rounds_cancel_a_drift_that_hits_both() -> None:
    drift = [1.0 + 0.1 * at for at in range(5)]
    luck = (1.001, 0.999, 1.0, 1.002, 0.998)
    top = [22.0 * d * each for d, each in zip(drift, luck, strict=True)]
    bottom = [20.0 * d for d in drift]
    paired = paired_ratio(top, bottom)
    assert paired is not None
    assert paired.value == pytest.approx(1.1, rel=1e-3)
    assert paired.resolved
    assert not ratio_of_processes(top, bottom).resolved
    assert paired_ratio(top[:1], bottom[:1]) is None
    assert paired_ratio(top, bottom[:3]) is None


@pytest.mark.parametrize(
    ("t", "df", "p"),
    [(2.776445, 4, 0.05), (12.7062, 1, 0.05), (1.959964, 1e6, 0.05), (4.604095, 4, 0.01),
     (0.0, 3, 1.0), (2.228139, 10, 0.05)],
)  # fmt: skip
def test_p_values_agree_with_tables(t: float, df: float, p: float) -> None:
    assert two_sided_p(t, df) == pytest.approx(p, rel=1e-4)
    assert two_sided_p(-t, df) == pytest.approx(p, rel=1e-4)


@pytest.mark.parametrize("df", [1, 2, 3, 7, 30])
def test_quantile_and_p_value_are_inverse(df: int) -> None:
    for confidence in (0.5, 0.9, 0.95, 0.99):
        assert two_sided_p(student_t(df, confidence), df) == pytest.approx(1 - confidence, rel=1e-3)


def test_holm_steps_down_until_one_holds() -> None:
    assert holm([0.04, 0.001, 0.02]) == [True, True, True]
    assert holm([0.04, 0.03, 0.02]) == [False, False, False]
    assert holm([0.04, 0.01, 0.03]) == [False, True, False]
    assert holm([]) == []


def test_an_interval_and_its_p_value_never_disagree() -> None:
    luck = random.Random(3)
    for _ in range(300):
        sides = [[luck.gauss(50, spread) for _ in range(3)] for spread in (0.3, 3.0)]
        found = ratio_of_processes(*sides)
        assert found.p is not None
        assert found.resolved is (found.p < 0.05)


def test_a_mean_over_processes_has_its_interval_between_them() -> None:
    samples = [[10.0, 10.2, 9.8], [11.0, 11.2, 10.8], [12.0, 12.2, 11.8]]
    found = over_processes([summarize(each) for each in samples])
    assert found.mean == pytest.approx(11.0)
    assert found.std == pytest.approx(0.2)  # of steps within a process
    assert found.ci95 == pytest.approx(student_t(2) * 1.0 / 3**0.5)
    assert (found.n, found.process_means) == (9, (10.0, 11.0, 12.0))
    assert over_processes([summarize(samples[0])]) == summarize(samples[0])


# --------------------------------------------------------------------------- decisions


def train(optimizer: float, others: float = 60.0) -> Times:
    return {
        "forward": around(others / 3),
        "backward": around(2 * others / 3),
        "optimizer": around(optimizer),
    }


def cells(
    optimizers: tuple[list[float], list[float]],
    others: tuple[list[float], list[float]] = ([60.0, 60.6, 59.4], [60.3, 59.6, 60.4]),
    *,
    pace: tuple[float, float] | None = None,
    host: float = 0.3,
    **changes: object,
) -> tuple[CaseState, CaseState]:
    """A baseline and a case with fused AdamW, in as many processes as there are times."""
    cases: list[Case] = []
    events: list[ev.Event] = []
    for kind, (own, rest) in enumerate(zip(optimizers, others, strict=True)):
        for process, (optimizer, other) in enumerate(zip(own, rest, strict=False)):
            of = case(process=process, **(FUSED if kind else {}), **changes)
            at = len(cases)
            cases.append(of)
            us = None if pace is None else (pace[kind], pace[kind])
            seen = observed(at, of, host_pace_us=us)
            events += run(at, of, train(optimizer, other), seen, host=host)
    baseline, fused = configurations(view(cases, events).cases)
    return baseline, fused


def decisions(found: Comparison | None) -> dict[str, str]:
    assert found is not None
    return {part.part: part.decision for part in found.parts}


def test_what_a_switch_acts_on_is_found_where_the_step_is_not_distinguished() -> None:
    """As recorded on an H100: the optimizer falls from 15.9 to 8.7 ms, the rest scatters."""
    base, other = cells(
        ([15.9, 15.8, 16.0], [8.7, 8.8, 8.6]),
        ([60.0, 71.0, 52.0], [75.0, 58.0, 66.0]),
    )
    found = compare(base, other)
    assert decisions(found) == {
        "forward": "",
        "backward": "",
        "optimizer": "faster",
        "total": "not distinguished",
    }
    assert found is not None
    assert found.parts[2].speedup.value == pytest.approx(15.9 / 8.7, rel=0.01)
    assert found.processes == 3


def test_single_processes_are_never_judged() -> None:
    found = compare(*cells(([16.0], [4.0]), ([60.0], [20.0])))
    assert found is not None
    assert found.not_judged == ONE_PROCESS
    assert set(decisions(found).values()) == {"", "not judged"}
    assert found.judged == ()


def test_less_than_one_percent_is_no_change_however_sure() -> None:
    sure = ([16.0, 16.0001, 15.9999], [15.9, 15.9001, 15.8999])
    found = compare(*cells(sure, ([60.0] * 3, [60.0] * 3)))
    assert decisions(found)["optimizer"] == "not distinguished"


def test_a_host_that_was_slower_is_not_called_a_change() -> None:
    slow = ([16.0, 16.1, 15.9], [30.0, 30.2, 29.8])
    others = ([60.0, 60.5, 59.5], [110.0, 111.0, 109.0])
    found = compare(*cells(slow, others, pace=(6.0, 11.4), host=1.0))
    assert found is not None
    assert found.not_judged == "not judged: the host was 1.9 × slower in one of them"
    busy = compare(*cells(slow, others, pace=(6.0, 11.4)))
    assert decisions(busy)["total"] == "slower"  # the card sets the pace, whatever the host does
    alike = compare(*cells(slow, others, pace=(6.0, 7.0), host=1.0))
    assert decisions(alike)["total"] == "slower"


def test_turns_are_compared_round_by_round() -> None:
    drift = [1.0, 1.2, 1.4, 1.6]
    optimizers = ([16.0 * d for d in drift], [14.0 * d * 1.001**at for at, d in enumerate(drift)])
    others = ([60.0 * d for d in drift], [60.0 * d for d in drift])
    assert decisions(compare(*cells(optimizers, others)))["optimizer"] == "not distinguished"
    turns = compare(*cells(optimizers, others, interleaved=True))
    assert decisions(turns)["optimizer"] == "faster"


def test_at_most_five_in_a_hundred_equal_pairs_get_a_verdict() -> None:
    luck = random.Random(7)
    called = 0
    for _ in range(400):
        drawn = [[[luck.gauss(mean, 0.02 * mean) for _ in range(3)] for _ in range(2)]
                 for mean in (16.0, 60.0)]  # fmt: skip
        found = compare(*cells((drawn[0][0], drawn[0][1]), (drawn[1][0], drawn[1][1])))
        assert found is not None
        called += bool(found.changed("faster", "slower"))
    assert called <= 0.05 * 400


def test_a_process_without_figures_is_left_out() -> None:
    one, other = case(), case(process=1)
    state = view([one, other], run(0, one, train(16.0)))
    (merged,) = configurations(state.cases)
    assert isinstance(merged, Replicated)
    assert merged.total is not None
    assert merged.total.process_means == ()
    assert [each.status for each in merged.processes] == ["ok", "pending"]


def test_equal_processes_of_a_card_seldom_get_a_verdict() -> None:
    """Twenty-four recorded processes of one cell; benchmarks/verdict_errors.py draws a thousand."""
    recorded = open_view(FIXTURES / "processes-h200.llmprof")
    luck = random.Random(5)
    called = 0
    for _ in range(100):
        drawn = luck.sample(recorded.cases, 6)
        one, another = (
            configurations(
                replace(
                    state,
                    case=msgspec.structs.replace(state.case, process=at, attention=attention),
                )
                for at, state in enumerate(side)
            )[0]
            for side, attention in ((drawn[:3], "naive"), (drawn[3:], "sdpa"))
        )
        found = compare(one, another)
        assert found is not None
        assert found.processes == 3
        called += bool(found.changed("faster", "slower"))
    assert called <= 5


# ------------------------------------------------------------------------------ losses


def with_losses(values: list[float], **fields: object) -> CaseState:
    of = case(warmup_steps=1, **fields)
    compile_loss = values[0] if of.compile else None
    left = values[1:] if of.compile else values
    made = [
        msgspec.structs.replace(step, loss=loss, start_ns=at)
        for at, (step, loss) in enumerate(
            zip(
                [*steps(0, {"forward": [1.0]}, warmup=True),
                 *steps(0, {"forward": [1.0] * (len(left) - 1)})],
                left,
                strict=True,
            )
        )
    ]  # fmt: skip
    seen = observed(0, of, compile_loss=compile_loss)
    return view([of], [ev.CaseStarted(case=0, pid=1), *made, seen, ev.CaseDone(case=0)]).cases[0]


def test_losses_are_compared_update_by_update() -> None:
    falling = [9.3, 8.7, 8.4, 8.1, 7.8]
    base = with_losses(falling)
    compiled = with_losses([each * (1 + 1e-7) for each in falling], compile="default")
    assert losses(compiled)[0] == pytest.approx(9.3)
    found = loss_difference(compiled, base)
    assert found is not None
    assert found.steps == 5
    assert found.largest == pytest.approx(1e-7, rel=0.01)
    assert not found.unexplained


def test_a_switch_that_trains_differently_is_seen() -> None:
    falling = [9.3, 8.7, 8.4, 8.1, 7.8]
    base = with_losses(falling)
    wrong = with_losses([each - 0.01 * at for at, each in enumerate(falling)], attention="sdpa")
    found = loss_difference(wrong, base)
    assert found is not None
    assert found.unexplained
    rounded = with_losses([each * 1.01 for each in falling], precision="bf16")
    explained = loss_difference(rounded, base)
    assert explained is not None
    assert not explained.unexplained


def test_a_ratio_whose_interval_says_nothing_is_no_figure() -> None:
    scattered = ratio_of_processes([0.018, 1.205, 1.995], [0.033, 0.246, 0.440])
    assert scattered.too_noisy
    assert times(scattered).startswith("between ")
    assert ratio_cells(scattered)[0] == TOO_NOISY


@pytest.mark.parametrize("other", [[5.0, 5.1, 5.2], [1.0, 1.01, 1.02], [0.06, 0.1, 0.17]])
def test_a_ratio_that_is_told_or_narrow_is_a_figure(other: list[float]) -> None:
    found = ratio_of_processes([1.0, 1.02, 0.99], other)
    assert not found.too_noisy
    assert "between" not in times(found)
