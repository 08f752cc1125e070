"""The phases of a profiled step, among which one is chosen."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from llmprof.core.state.view import CaseState
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.kernels.rows import ALL, phase_names, total_ms
from llmprof.tui.kit.canvas import Canvas, row_length
from llmprof.tui.kit.format import milliseconds_text
from llmprof.tui.kit.roles import PHASE_ROLES


class PhaseTabs(Canvas):
    """All and every phase with its time; a click chooses."""

    DEFAULT_CSS = """
    PhaseTabs { height: 1; }
    """

    class Chosen(Message):
        """Another phase was clicked."""

        def __init__(self, phase: str) -> None:
            super().__init__()
            self.phase = phase

    def __init__(self) -> None:
        super().__init__(id="phase-tabs")
        self._state: CaseState | None = None
        self._phase = ALL
        self._places: list[tuple[int, int, str]] = []

    def show(self, state: CaseState | None, phase: str) -> None:
        """Take a case and the phase that is chosen."""
        self._state, self._phase = state, phase
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Name and milliseconds of one step, the chosen one marked."""
        self._places = []
        row: Row = []
        table = self._state.kernels if self._state else None
        for phase in phase_names(table) if table else ():
            assert table is not None
            chosen = phase == self._phase
            mark = self.look.on if chosen else self.look.off
            start = row_length(row)
            role = "chip" if chosen else (phase if phase in PHASE_ROLES else "muted")
            row.append((f"{mark} {clean(phase, 20)}", role))
            if width >= 90:
                row.append((f" {milliseconds_text(total_ms(table, phase))} ms", "muted"))
            self._places.append((start, row_length(row), phase))
            row.append(("  ", ""))
        return [row]

    def on_click(self, event: events.Click) -> None:
        """Choose what was clicked."""
        for start, end, phase in self._places:
            if start <= event.x < end:
                self.post_message(self.Chosen(phase))
