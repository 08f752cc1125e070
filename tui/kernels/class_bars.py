"""Where the time of a phase went, by kind of work."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.figures.profile_wholes import work_word
from llmprof.core.state.view import CaseState
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.kernels.rows import ALL
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.format import milliseconds_text


class ClassBars(Canvas):
    """Time by class in the chosen phase, as bars of its share."""

    DEFAULT_CSS = """
    ClassBars { width: 34; }
    """

    def __init__(self) -> None:
        super().__init__(id="class-bars")
        self._state: CaseState | None = None
        self._phase = ALL

    def show(self, state: CaseState | None, phase: str) -> None:
        """Take a case and a phase."""
        self._state, self._phase = state, phase
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Class, bar, share, milliseconds of one step."""
        look, table = self.look, self._state.kernels if self._state else None
        word = "" if table is None else f"% of {work_word(table.source)}, ms, "
        rows: list[Row] = [heading(look, width, "Classes", f"{word}{self._phase}")]
        if table is None:
            return [*rows, [("time by kind of work", "muted")]]
        times: dict[str, float] = {}
        for each in table.classes:
            if self._phase in (ALL, each.phase):
                times[each.label] = times.get(each.label, 0.0) + each.total_ms / table.steps
        whole = sum(times.values())
        room = max(3, width - 28)
        for label, time in sorted(times.items(), key=lambda pair: -pair[1]):
            share = time / whole if whole else 0.0
            full = round(share * room)
            rows.append(
                [
                    (f"{clean(label, 11):<12}", "text"),
                    (look.bar[0] * full, "accent"),
                    (look.bar[1] * (room - full), "rule"),
                    (f" {100 * share:4.1f} %", "text"),
                    (f" {milliseconds_text(time):>7}", "muted"),
                ]
            )
        return rows
