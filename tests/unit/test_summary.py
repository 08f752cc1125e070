from __future__ import annotations

import csv
import math
import statistics
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprof.core.stats.student import student_t
from llmprof.core.stats.summary import MIN_OUTLIER_SAMPLES, stability, summarize

DATA = Path(__file__).parents[1] / "data"
Key = tuple[int, str, str]


def samples_by_cell() -> dict[Key, list[float]]:
    cells: dict[Key, list[float]] = defaultdict(list)
    with (DATA / "step-log.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["kind"] == "measure":
                key = (int(row["warmup_steps"]), row["model"], row["phase"])
                cells[key].append(float(row["seconds"]))
    return cells


def test_published_cell_of_the_step_log() -> None:
    summary = summarize(samples_by_cell()[0, "small", "forward"])
    assert summary.mean == pytest.approx(0.1147344, abs=5e-8)
    assert summary.std == pytest.approx(0.2154684, abs=5e-8)
    assert summary.median == pytest.approx(0.0458950, abs=5e-8)


def test_every_cell_agrees_with_the_published_summary() -> None:
    cells = samples_by_cell()
    with (DATA / "step-log-summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    for row in rows:
        summary = summarize(cells[int(row["warmup_steps"]), row["model"], row["phase"]])
        assert summary.std is not None
        population = summary.std * math.sqrt((summary.n - 1) / summary.n)
        assert summary.mean == pytest.approx(float(row["mean_s"]), abs=1e-6)
        assert population == pytest.approx(float(row["population_std_s"]), abs=1e-6)
        assert 100 * population / summary.mean == pytest.approx(float(row["cv_percent"]), abs=0.01)


def test_a_cold_first_step_is_a_severe_outlier_and_is_kept() -> None:
    summary = summarize(samples_by_cell()[0, "small", "forward"])
    assert 0 in summary.severe
    assert summary.maximum == pytest.approx(0.727932)


@pytest.mark.parametrize(
    ("df", "expected"),  # two-sided 95 % quantiles from printed tables of Student's t
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (29, 2.045), (120, 1.980)],
)
def test_student_t_against_tables(df: int, expected: float) -> None:
    assert student_t(df) == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize(("df", "expected"), [(1, 63.657), (3, 5.841), (9, 3.250), (30, 2.750)])
def test_student_t_at_99_percent(df: int, expected: float) -> None:
    assert student_t(df, 0.99) == pytest.approx(expected, abs=6e-4)


def test_one_sample_has_no_spread() -> None:
    summary = summarize([3.0])
    assert (summary.n, summary.mean, summary.std, summary.ci95) == (1, 3.0, None, None)
    assert summary.cv_percent is None
    assert stability(summary) == "n/a: one step"


@pytest.mark.parametrize("bad", [[], [1.0, math.nan], [math.inf]])
def test_what_is_no_sample_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="sample"):
        summarize(bad)


def test_drift_is_flagged_with_its_direction() -> None:
    summary = summarize([10.0, 10.1, 10.0, 11.0, 11.1, 12.0, 13.0, 13.1, 13.0])
    assert summary.drift_percent == pytest.approx(29.9, abs=0.1)
    assert "steps became 30 % longer from the first third to the last" in stability(summary)
    shrinking = summarize([13.0, 13.1, 13.0, 12.0, 11.1, 11.0, 10.0, 10.1, 10.0])
    assert "steps became 23 % shorter from the first third to the last" in stability(shrinking)


def test_noise_without_trend_is_no_drift() -> None:
    summary = summarize([10.0, 11.0, 9.0, 10.5, 9.5, 10.0, 9.0, 11.0, 10.0])
    assert summary.drift_percent is None
    assert "scatter" in stability(summary)


def test_stability_bands() -> None:
    assert stability(summarize([100, 101, 99, 100])) == "very stable"
    assert stability(summarize([100, 104, 96, 101])) == "acceptable"


times = st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=2, max_size=60)


@given(times)
def test_summary_is_consistent(samples: list[float]) -> None:
    summary = summarize(samples)
    assert summary.q1 is not None
    assert summary.q3 is not None
    assert summary.minimum <= summary.q1 <= summary.median <= summary.q3 <= summary.maximum
    assert summary.std == pytest.approx(statistics.stdev(samples), abs=1e-9 * summary.maximum)
    assert not set(summary.mild) & set(summary.severe)
    if summary.n < MIN_OUTLIER_SAMPLES:
        assert not summary.mild + summary.severe
        return
    inside = [v for i, v in enumerate(samples) if i not in summary.mild + summary.severe]
    reach = 1.5 * (summary.q3 - summary.q1)
    slack = 1e-9 * summary.maximum
    assert all(summary.q1 - reach - slack <= v <= summary.q3 + reach + slack for v in inside)


@given(times, st.floats(min_value=0.1, max_value=10))
def test_summary_scales_with_its_unit(samples: list[float], factor: float) -> None:
    one, other = summarize(samples), summarize([factor * v for v in samples])
    assert other.mean == pytest.approx(factor * one.mean)
    assert one.ci95 is not None
    assert other.ci95 == pytest.approx(factor * one.ci95, abs=1e-6 * other.mean)
