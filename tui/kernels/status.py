"""What is told of the profiled case in sight: the case, what bounds it, what is missing."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core import events as ev
from llmprof.core.state.view import CaseState
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, cut_words, row_length
from llmprof.tui.kit.format import percent_text

_BOUND_ROLES = {"GPU-bound": "good", "partly launch-bound": "warn", "launch-bound": "bad"}


class KernelStatus(Canvas):
    """The case in sight, what bounds it, how much of it is accounted for, and what is missing."""

    DEFAULT_CSS = """
    KernelStatus { height: 1; }
    """

    def __init__(self) -> None:
        super().__init__(id="kernel-status")
        self._state: CaseState | None = None
        self._plain: float | None = None
        self._mark = ""

    def show(self, state: CaseState | None, plain: float | None = None, mark: str = "") -> None:
        """Take a case, the wall time of its plain step (milliseconds), and a word before it."""
        self._state, self._plain, self._mark = state, plain, mark
        self.styles.height = 1 + len(self._missing())
        self.repaint()

    def _missing(self) -> list[Row]:
        table = self._state.kernels if self._state else None
        return [[(clean(line, 200), "warn")] for line in (table.missing if table else ())[:2]]

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """A line in which the first fact stays and others are left off from the right; warnings."""
        if self._state is None or self._state.kernels is None:
            return [[]]
        first, *others = self._facts(self._state, self._state.kernels)
        label = self.look.text(clean(self._state.case.label, 120).removeprefix("kernels · "))
        mark: Row = [(f"{self._mark} ", "muted")] if self._mark else []
        room = max(8, width - row_length(first) - row_length(mark) - 2)
        if len(label) > room:
            label = cut_words(label, room, self.look.ellipsis)
        row: Row = [*mark, (label, "title"), ("  ", ""), *first]
        for part in others:
            if row_length(row) + 2 + row_length(part) > width:
                break
            row += [("  ", ""), *part]
        return [row, *self._missing()]

    def _facts(self, state: CaseState, table: ev.KernelTable) -> list[Row]:
        share = table.coverage.to_module
        tied = "modules unknown"
        if share is not None:
            tied = f"{percent_text(share, 2)} attributed to modules"
        known: Row = [(tied, "muted")]
        if table.source == "cpu":
            return [[("no card: CPU ops by self time", "warn")], known]
        if state.timeline is None:
            return [known]
        step, verdict = state.timeline.parts[0], state.timeline.verdict
        busy = 100 * step.busy_ms / step.wall_ms if step.wall_ms else None
        return [
            [(verdict, _BOUND_ROLES.get(verdict, "muted"))],
            [(f"GPU busy {percent_text(busy, 0)} of a profiled step", "muted")],
            *self._of_plain(step.busy_ms),
            known,
        ]

    def _of_plain(self, busy_ms: float) -> list[Row]:
        """The share of the plain step, which has no profiler in it; nothing of a shorter one."""
        if not self._plain or busy_ms > self._plain:
            return []
        return [[(f"{percent_text(100 * busy_ms / self._plain, 0)} of a plain one", "muted")]]
