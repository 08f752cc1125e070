"""The recorded case in sight: its peak, measured beside predicted."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.events import MemoryTimeline, Predicted
from llmprof.core.predict.as_event import predicted, predicted_here
from llmprof.core.state.view import CaseState
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, row_length
from llmprof.tui.kit.format import bytes_text

NOTABLE_PERCENT = 1.0  # predictions are expected to be nearer than this


def shown_prediction(state: CaseState) -> Predicted | None:
    """What was predicted before the run, or what the closed form says of a card now."""
    if state.predicted is not None:
        return state.predicted
    here = None
    if state.environment is not None:
        here = predicted_here(state.index, state.case, state.environment)
    return here or predicted(state.index, state.case)


class MemoryStatus(Canvas):
    """Two lines at most: the case; peak, phase, prediction and what the allocator adds."""

    DEFAULT_CSS = """
    MemoryStatus { height: 2; }
    """

    def __init__(self) -> None:
        super().__init__(id="memory-status")
        self._state: CaseState | None = None
        self._said: Predicted | None = None
        self._around = ("", "")

    def show(
        self, state: CaseState | None, said: Predicted | None, around: tuple[str, str]
    ) -> None:
        """Take a case, its prediction, and what to say before and after its name."""
        self._state, self._said, self._around = state, said, around
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """What does not fit is left off from the right."""
        state = self._state
        event = state.memory_timeline if state is not None else None
        if state is None or event is None:
            return []
        before, after = self._around
        name: Row = [(f"{before} ", "warn")] if before else []
        first: list[Row] = [[*name, (clean(state.case.label, 120), "title")]]
        if event.overflow:
            first.append([("the recorder was full: the start is lost", "bad")])
        first += [[(clean(line, 120), "warn")] for line in event.missing]
        first.append([(after, "muted")])
        return [_fit(first, width), _fit(self._figures(event), width)]

    def _figures(self, event: MemoryTimeline) -> list[Row]:
        top = max(event.phases, key=lambda phase: phase.peak_bytes, default=None)
        parts: list[Row] = [[("peak ", "muted"), (bytes_text(event.peak_bytes), "title")]]
        if top is not None:
            parts[0].append((f" in {clean(top.phase, 20)}", "muted"))
        parts.append(self._predicted(event))
        if event.allocated_peak_bytes is not None:
            slack = event.allocated_peak_bytes - event.peak_bytes
            parts.append([(f"allocator rounding {bytes_text(slack)}", "muted")])
        if event.reserved_bytes is not None:
            parts.append([(f"reserved {bytes_text(event.reserved_bytes)}", "muted")])
        return parts

    def _predicted(self, event: MemoryTimeline) -> Row:
        said = self._said
        if said is None:
            return [("no prediction for this case", "muted")]
        if event.source != "cuda allocator":
            return [("recorded without a GPU; predicted for one ", "muted"),
                    (bytes_text(said.requested_bytes), "text")]  # fmt: skip
        error = 100 * (said.requested_bytes / event.peak_bytes - 1) if event.peak_bytes else 0.0
        near = abs(error) < NOTABLE_PERCENT
        return [
            ("predicted ", "muted"),
            (bytes_text(said.requested_bytes), "text"),
            (f" {error:+.2f} %", "good" if near else "warn"),
        ]


def _fit(parts: Sequence[Row], width: int) -> Row:
    row: Row = []
    for part in parts:
        gap: Row = [("   ", "")] if row else []
        if row_length([*row, *gap, *part]) <= width:
            row += [*gap, *part]
    return row
