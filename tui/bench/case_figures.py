"""The figures of the case in sight: mean with interval, spread, phases, throughput, memory."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.figures.memory_peaks import peaks_of
from llmprof.core.state.view import CaseState
from llmprof.tui.bench.chart_state import SERIES_NAMES, ChartState
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.format import (
    interval_text,
    mean_interval,
    memory_text,
    milliseconds_text,
    number_text,
    percent_text,
)
from llmprof.tui.kit.roles import PHASE_ROLES
from llmprof.tui.session.curves import CaseCurves


class NowPanel(Canvas):
    """Label and value a line; what is not known yet is a dash."""

    DEFAULT_CSS = """
    NowPanel { height: auto; }
    """

    def __init__(self) -> None:
        super().__init__(id="now")
        self._state: ChartState | None = None

    def get_content_height(self, *_: object) -> int:
        """Heading, figures, five phases."""
        return 12

    def show(self, state: ChartState | None) -> None:
        """Take a case."""
        self._state = state
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """The lines."""
        look, state = self.look, self._state
        title = heading(look, width, "Figures", "times in ms")
        if state is None:
            return [title, [("mean, spread, interval, phases,", "muted")],
                    [("tokens per second and peak", "muted")],
                    [("memory of the case in sight", "muted")]]  # fmt: skip
        pairs = _figures(state.case, state.curves)
        rows: list[Row] = [title]
        for label, value, role in pairs:
            text = look.text(value)
            pad = " " * max(1, width - len(label) - len(text))
            rows.append([(label, role if role in SERIES_NAMES or role in PHASE_ROLES else "muted"),
                         (pad, ""), (text, "title" if role == "title" else "text")])  # fmt: skip
        return rows


def _figures(case: CaseState, curves: CaseCurves) -> list[tuple[str, str, str]]:
    total = curves.total
    mean = total.mean if total.n else None
    out = [
        ("step, ± std", mean_interval(mean, total.std), "title"),
        ("95 % interval", interval_text(mean, total.ci95), "text"),
        ("CV", percent_text(total.cv_percent), "text"),
        ("tokens/s", number_text(case.case.tokens / mean * 1000 if mean else None, 0), "text"),
    ]
    for phase in case.case.phases:
        running = curves.means[phase]
        share = f" {100 * running.mean / mean:3.0f} %" if running.n and mean else ""
        value = milliseconds_text(running.mean if running.n else None) + share
        out.append((SERIES_NAMES.get(phase, phase), value, phase))
    peak = peaks_of(case).told
    size, kind = (None, "allocated") if peak is None else peak
    out += [
        ("peak memory" if kind == "allocated" else f"peak {kind}", memory_text(size), "text"),
        (
            "host launching work",
            percent_text(_in_percent(case.host_share if case.done else None), 0),
            "text",
        ),
    ]
    return out


def _in_percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
