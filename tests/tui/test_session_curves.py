"""What is taken of a case for its curves."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprof.core.state.reducer import Reducer
from llmprof.core.stats.summary import summarize
from llmprof.tui.session.curves import CaseCurves, RunningMean, outliers
from tests.builders.journals import reduced


@given(st.lists(st.floats(0.01, 1e5), min_size=2, max_size=60))
def test_running_mean_agrees_with_the_summary(values: list[float]) -> None:
    running = RunningMean()
    for value in values:
        running.extend([value])
    together = RunningMean()
    together.extend(values[:7])
    together.extend([])
    together.extend(values[7:])
    assert together.mean == pytest.approx(running.mean)
    assert together.std == pytest.approx(running.std, rel=1e-6, abs=1e-6 * running.mean)
    summary = summarize(values)
    assert running.mean == pytest.approx(summary.mean)
    assert running.std == pytest.approx(summary.std, rel=1e-6, abs=1e-6 * summary.mean)
    assert running.ci95 == pytest.approx(summary.ci95, rel=1e-6, abs=1e-6 * summary.mean)


def test_curves_taken_in_parts_equal_curves_taken_at_once(tmp_path: Path) -> None:
    whole = reduced(tmp_path).view().cases[0]
    at_once = CaseCurves(whole)
    at_once.update(whole)
    in_parts = CaseCurves(whole)
    run = next((tmp_path).glob("*/journal.jsonl"))
    from llmprof.core import events as ev

    reducer = Reducer()
    for row in run.read_bytes().splitlines():
        reducer.apply(ev.decode(row))
        view = reducer.view()
        if view.cases and view.cases[0].status == "running":
            in_parts.update(view.cases[0])
    assert in_parts.total.n == at_once.total.n == 40
    assert in_parts.phases["forward"].points() == at_once.phases["forward"].points()
    assert in_parts.warmup_end == at_once.warmup_end
    assert in_parts.scale_top() == at_once.scale_top()


def test_the_interval_narrows(tmp_path: Path) -> None:
    case = reduced(tmp_path, 200).view().cases[0]
    curves = CaseCurves(case)
    curves.update(case)
    _, lows = curves.low.points()
    _, highs = curves.high.points()
    widths = [h[1] - low[0] for h, low in zip(highs, lows, strict=True) if h and low]
    assert widths[-1] < widths[20] / 2


def test_outliers_are_those_of_the_statistics(tmp_path: Path) -> None:
    case = reduced(tmp_path).view().cases[0]
    assert case.total is not None
    assert 17 in outliers(case)
    assert set(outliers(case)) == {*case.total.mild, *case.total.severe}
