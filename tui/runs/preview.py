"""The run under the cursor: what it measured, how it was asked for, what is said of it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading, row_length
from llmprof.tui.session.run_index import CaseLine, ListedRun

MOST_CASES = 200  # lines beyond which nobody scrolls: the run itself is one key away


class RunPreview(Canvas):
    """Device and progress, the cases with their figures, the command."""

    DEFAULT_CSS = """
    RunPreview { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__(id="run-preview")
        self._listed: ListedRun | None = None

    def show(self, listed: ListedRun | None) -> None:
        """Take a run."""
        if listed != self._listed:
            self._listed = listed
            self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Facts above, the command below, as many cases between as there is room for."""
        listed, look = self._listed, self.look
        if listed is None:
            return [heading(look, width, "Run"), [("the run under the cursor", "muted")]]
        figures, summary = listed.figures, listed.summary
        top: list[Row] = [heading(look, width, "Run", look.text(clean(summary.label, 60)))]
        facts = [summary.device or "", summary.experiment or "", figures.running]
        said = "  ".join(clean(fact, 60) for fact in facts if fact)
        top.append([(look.text(said), "muted")])
        wrapped = textwrap.wrap(look.text(clean(figures.command, 600)), max(20, width - 2),
                                break_on_hyphens=False, subsequent_indent="  ")[:3]  # fmt: skip
        below: list[Row] = [[(line, "muted")] for line in wrapped]
        room = max(1, height - len(top) - len(below))
        shown = figures.cases[:MOST_CASES]
        longest = max((len(look.text(case.label)) for case in shown), default=0)
        widest = max((len(look.text(case.figure)) for case in shown), default=0)
        lines = [self._case(case, width, longest, widest) for case in shown]
        if len(lines) > room:
            more = len(figures.cases) - room + 1
            lines = [*lines[: room - 1], [(f"and {more} more: enter opens the run", "muted")]]
        return [*top, *lines, *below]

    def _case(self, case: CaseLine, width: int, longest: int, widest: int) -> Row:
        """Label and figure, each below the others; what is said of it where there is room."""
        figure = self.look.text(case.figure).rjust(widest)
        label, room = self.look.text(case.label), max(8, width - len(figure) - 2)
        if len(label) > room:
            label = label[: room - len(self.look.ellipsis)] + self.look.ellipsis
        pad = " " * max(0, min(longest, room) - len(label))
        row: Row = [(f"{label}{pad}", "text"), ("  ", ""), (figure, case.role)]
        said = self.look.text(case.said)
        if said and row_length(row) + 2 + len(said) <= width:
            row += [("  ", ""), (said, "muted")]
        return row
