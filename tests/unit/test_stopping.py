"""Rules of automatic warm-up and measuring, on series made for them."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from llmprof.core.stats import stopping
from llmprof.core.stats.summary import summarize


def noise(count: int, value: float = 20.0, cv: float = 0.01, seed: int = 1) -> list[float]:
    generator = random.Random(seed)
    return [generator.gauss(value, cv * value) for _ in range(count)]


def test_a_flat_series_is_steady() -> None:
    assert stopping.unsteady(noise(20)) is None
    assert stopping.warmup_stop(noise(20), 0.0, 300) == "steady after 20 steps"


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (noise(19), "19 of 20 steps"),
        ([100.0, *noise(19)], "first step is an outlier"),
        ([*noise(10, 30.0), *noise(10, 20.0, seed=2)], "means differ by +50 %"),
        ([*noise(10, 20.0), *noise(10, 45.0, seed=2)], "means differ by -5"),
        ([*noise(10, 21.6), *noise(10, 20.0, seed=2)], "lower quartiles differ by +8 %"),
        ([*([20.0] * 10), *([15.0, 25.0] * 5)], "quartiles differ"),
    ],
)
def test_the_unmet_condition_is_named(samples: list[float], words: str) -> None:
    missing = stopping.unsteady(samples)
    assert missing is not None
    assert words in missing


def test_only_the_last_window_counts() -> None:
    assert stopping.unsteady([*noise(30, 200.0), *noise(20)]) is None


def test_warmup_gives_up_at_its_limits() -> None:
    falling = [1000.0 * 0.9**at for at in range(40)]
    assert stopping.warmup_stop(falling, 1.0, 300) is None
    stop = stopping.warmup_stop(falling, 1.0, 40)
    assert stop is not None
    assert stop.startswith(f"{stopping.NOT_STEADY} after 40 steps")
    late = stopping.warmup_stop(falling, 61.0, 300)
    assert late is not None
    assert late.startswith(f"{stopping.NOT_STEADY} within 60 s")


def test_the_relative_interval_is_the_summarys() -> None:
    samples = noise(12)
    summary = summarize(samples)
    assert summary.ci95 is not None
    assert stopping.relative_ci(samples) == pytest.approx(100 * summary.ci95 / summary.mean)
    assert stopping.relative_ci([20.0]) is None


@pytest.mark.parametrize(
    ("samples", "target", "words"),
    [
        (noise(9, 100.0), 1.0, "9 of at least 10 steps"),
        (noise(10, 20.0), 1.0, "0.2 s measured of at least 0.5 s"),
        (noise(30, 100.0, cv=0.2), 1.0, "mean known within "),
    ],
)
def test_measuring_goes_on_while_a_condition_is_unmet(
    samples: list[float], target: float, words: str
) -> None:
    missing = stopping.short_of(samples, target)
    assert missing is not None
    assert words in missing
    assert stopping.measure_stop(samples, 1.0, target, 1000) is None


def test_measuring_stops_when_the_target_is_met() -> None:
    stop = stopping.measure_stop(noise(30), 1.0, 1.0, 1000)
    assert stop is not None
    assert stop.startswith("mean known within 0.")
    assert "after 30 steps" in stop


def test_a_missed_target_names_what_is_unmet_and_how_many_steps_would_do() -> None:
    rough = noise(50, 100.0, cv=0.2)
    stop = stopping.measure_stop(rough, 15.0, 1.0, 1000)
    assert stop is not None
    assert stop.startswith(f"{stopping.NOT_MET} within 15 s: mean known within ")
    needed = stopping.steps_needed(rough, 1.0)
    assert needed is not None
    assert 1000 < needed < 2500  # (1.96 · 0.2 / 0.01)² = 1,537 for the true spread
    assert f"a fixed --measure-steps {needed} would do" in stop
    capped = stopping.measure_stop(rough, 1.0, 1.0, 50)
    assert capped is not None
    assert capped.startswith(f"{stopping.NOT_MET} within 50 steps")


def test_many_steps_are_not_all_looked_at_after_each(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    short_of = stopping.short_of

    def counted(samples: list[float], target_percent: float) -> str | None:
        looks.append(len(samples))
        return short_of(samples, target_percent)

    monkeypatch.setattr(stopping, "short_of", counted)
    samples = noise(2000, 0.5, cv=0.3)
    for n in range(1, len(samples)):
        assert stopping.measure_stop(samples[:n], 1.0, 0.01, len(samples)) is None
    assert looks[:100] == list(range(1, 101))
    assert len(looks) < 600
    assert all(after - before <= 1 + before // 100 for before, after in pairwise(looks))
    capped = stopping.measure_stop(samples, 1.0, 0.01, len(samples))
    assert capped is not None
    assert capped.startswith(f"{stopping.NOT_MET} within 2,000 steps")
