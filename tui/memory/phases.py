"""Every phase of the recorded steps: highest level, level after it, what was predicted."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.events import MemoryTimeline, Predicted
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.chart.scale import scale_for
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.roles import PHASE_ROLES

FIGURE_WIDTH = 9


class MemoryPhases(Canvas):
    """One line a phase, the one under the cursor marked."""

    DEFAULT_CSS = """
    MemoryPhases { width: 46; margin-left: 2; }
    """

    def __init__(self) -> None:
        super().__init__(id="memory-phases")
        self._event: MemoryTimeline | None = None
        self._said: Predicted | None = None
        self._here: tuple[int, str] | None = None

    def show(self, event: MemoryTimeline | None, said: Predicted | None) -> None:
        """Take a recording and its prediction."""
        self._event, self._said = event, said
        self.repaint()

    def mark(self, here: tuple[int, str] | None) -> None:
        """Mark a phase of a step."""
        if here != self._here:
            self._here = here
            self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading, titles, phases; of many the ones around the marked one."""
        event = self._event
        if event is None:
            return []
        scale = scale_for("B", event.peak_bytes)
        head = f"  {'step':<5}{'phase':<10}{'peak':>{FIGURE_WIDTH}}{'after':>{FIGURE_WIDTH}}"
        said_title = "predicted" if event.source == "cuda allocator" else "on a card"
        head += f"{said_title:>{FIGURE_WIDTH + 1}}"
        start = sum(event.before.values())
        rows: list[Row] = [
            heading(self.look, width, "Level by phase", scale.unit),
            [(head, "muted")],
        ]
        lines: list[Row] = [
            [
                ("  ", ""),
                (f"{'start':<{15 + FIGURE_WIDTH}}", "muted"),
                (f"{scale.figure(start):>{FIGURE_WIDTH}}", "text"),
            ]
        ]
        said = self._said.phase_peaks if self._said is not None else {}
        at = 0
        for each in event.phases:
            here = (each.step, each.phase) == self._here
            at = len(lines) if here else at
            name = clean(each.phase, 10)
            lines.append(
                [
                    (f"{self.look.cursor if here else ' '} ", "accent"),
                    (f"{each.step + 1:<5}", "muted"),
                    (f"{name:<10}", each.phase if each.phase in PHASE_ROLES else "muted"),
                    (f"{scale.figure(each.peak_bytes):>{FIGURE_WIDTH}}", "text"),
                    (f"{scale.figure(each.after_bytes):>{FIGURE_WIDTH}}", "text"),
                    (f"{scale.figure(said.get(each.phase)):>{FIGURE_WIDTH + 1}}", "muted"),
                ]
            )
        room = max(1, height - 2)
        first = min(max(0, at - room // 2), max(0, len(lines) - room))
        return [*rows, *lines[first : first + room]]
