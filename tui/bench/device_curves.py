"""View state of the device chart: metrics in percent, taken as they come."""

from __future__ import annotations

from bisect import bisect_right

from llmprof.core.figures.case_device import run_card
from llmprof.core.state.histories import SeriesView
from llmprof.core.state.view import RunView
from llmprof.tui.chart.envelope import Envelope


class DeviceCurves:
    """Device metrics as percent of what they can be, on a case's time axis."""

    def __init__(self, origin_ns: int) -> None:
        self._origin_ns = origin_ns
        self._taken_ns = origin_ns - 1
        self.envelopes: dict[str, Envelope] = {}
        self.labels: dict[str, str] = {}

    def update(self, view: RunView, end_ns: int | None = None) -> None:
        """Take the samples that are new, up to end_ns."""
        newest = self._taken_ns
        for role, label, series, full in _card_sources(view) or _host_sources(view):
            if full is None or full <= 0:
                continue
            envelope = self.envelopes.setdefault(role, Envelope(width=0.05))
            self.labels[role] = label
            times, values = series.points(self._taken_ns + 1)
            kept = len(times) if end_ns is None else bisect_right(times, end_ns)
            if kept:
                envelope.extend(
                    [(t - self._origin_ns) / 1e9 for t in times[:kept]],
                    [100 * value / full for value in values[:kept]],
                )
                newest = max(newest, times[kept - 1])
        self._taken_ns = newest


PercentSeries = tuple[str, str, SeriesView, float | None]


def _card_sources(view: RunView) -> list[PercentSeries]:
    card = run_card(view)
    if card is None:
        return []
    names = (
        ("utilization", "util", "utilization", None),
        ("memory", "memory", "memory_used", "memory_total"),
        ("power", "power", "power", "power_limit"),
    )
    out: list[PercentSeries] = []
    for role, label, name, full in names:
        series = card.series.get(name)
        if series is None:
            continue
        most = None if full is None else card.series.get(full)
        limit = 100.0 if full is None else None if most is None else most.newest_known
        out.append((role, label, series, limit))
    return out


def _host_sources(view: RunView) -> list[PercentSeries]:
    total = view.last_sample.host.memory_total_bytes if view.last_sample else None
    out: list[PercentSeries] = [("utilization", "cpu", view.host_cpu, 100.0)]
    if total:
        out.append(("memory", "ram", view.host_memory, float(total)))
    return out
