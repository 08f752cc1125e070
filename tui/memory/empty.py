"""What the Memory view says while the run in sight has no recording."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.memory.plan import MemoryPlan

NO_RECORDING = "no recorded memory in this run"
WHAT = (
    "A recording follows every allocation of two steps in a process of its own: the level over "
    "time by category, the level after each phase, and the lines of code that hold most at the "
    "peak."
)


class MemoryEmpty(Canvas):
    """Why there is nothing, the command that makes it, and the key that starts it."""

    DEFAULT_CSS = """
    MemoryEmpty { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__(id="memory-empty")
        self._plan = MemoryPlan(None)
        self._note = ""

    def show(self, plan: MemoryPlan, note: str) -> None:
        """Take what would be recorded, and what the run in sight does."""
        self._plan, self._note = plan, note
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading, explanation, command, key."""
        plan, room = self._plan, max(20, min(width, 92))
        rows: list[Row] = [
            heading(self.look, width, "Memory", self._note),
            [],
            *([(line, "text")] for line in textwrap.wrap(WHAT, room)),
            [],
        ]
        if plan.experiment is None:
            return [*rows, [(f"the set-up pane has nothing to record: {plan.problem}", "warn")]]
        cases = len(plan.experiment.cases())
        noun = "case" if cases == 1 else "cases"
        rows += [
            [("r", "key"), (f" records {cases} {noun}, as the set-up pane has chosen", "text")],
            [],
            [("or, without a screen", "muted")],
            *[[(f"  {line}", "text")] for line in _wrapped(plan.line, room - 2)],
        ]
        return rows


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, break_on_hyphens=False, subsequent_indent="  ")
