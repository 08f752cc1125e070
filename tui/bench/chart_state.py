"""What the charts show of a case, and how their time axis grows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llmprof.tui.chart.ticks import time_step

if TYPE_CHECKING:
    from llmprof.core.figures.case_device import CaseDevice
    from llmprof.core.state.view import CaseState, RunView
    from llmprof.tui.bench.device_curves import DeviceCurves
    from llmprof.tui.session.curves import CaseCurves

CASE_WINDOWS_S: tuple[float | None, ...] = (
    None,
    300.0,
    60.0,
    15.0,
)  # seconds; None: the whole case
BENCH_GUTTER = 6
BENCH_LABELS = 19
SERIES_NAMES = {"zero_grad": "zero grad", "total": "step"}


@dataclass(frozen=True)
class ChartState:
    """What the charts show of a case: data, time window, window's name."""

    view: RunView
    case: CaseState
    curves: CaseCurves
    device: DeviceCurves | None
    x: tuple[float, float]
    window: str
    disturbed: CaseDevice | None = None
    aside: bool = False  # another case than the one in sight is running


def time_window(curves: CaseCurves, done: bool, window: float | None) -> tuple[float, float]:
    """Start and end of the time axis; both move in steps, so that little is drawn anew."""
    last = max(curves.last, 1e-3)
    if window is not None and last > window:
        step = window / 60
        end = -(-last // step) * step
        return end - window, end
    if window is not None:
        return 0.0, window
    if done:
        return 0.0, last * 1.005
    return 0.0, grown(last)


def grown(last: float) -> float:
    """A round span with room for what comes."""
    step = time_step(last * 1.15, 4)
    return -(-(last * 1.05) // step) * step
