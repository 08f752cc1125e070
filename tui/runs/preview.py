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
    """Device and progress, the verdict and what to try, the cases with figures, the command."""

    DEFAULT_CSS = """
    RunPreview { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__(id="run-preview")
        self._listed: ListedRun | None = None
        self._outlook: tuple[str, ...] = ()

    def show(self, listed: ListedRun | None, outlook: tuple[str, ...] = ()) -> None:
        """Take a run, with the verdict on it and what to try next where these are known."""
        if (listed, outlook) != (self._listed, self._outlook):
            self._listed, self._outlook = listed, outlook
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
        below = [_muted(line) for line in self._wrapped(figures.command, width)[:3]]
        top += self._outlook_rows(width, (height - len(top) - len(below)) * 2 // 3)
        room = max(1, height - len(top) - len(below))
        shown = figures.cases[:MOST_CASES]
        longest = max((len(look.text(case.label)) for case in shown), default=0)
        widest = max((len(look.text(case.figure)) for case in shown), default=0)
        lines = [self._case(case, width, longest, widest) for case in shown]
        if len(lines) > room:
            more = len(figures.cases) - room + 1
            lines = [*lines[: room - 1], [(f"and {more} more: enter opens the run", "muted")]]
        return [*top, *lines, *below]

    def _outlook_rows(self, width: int, room: int) -> list[Row]:
        """The verdict and each thing to try, as many lines as there is room for."""
        rows: list[Row] = []
        for at, line in enumerate(self._outlook):
            role = "muted" if at else "title"
            rows += [[(each, role)] for each in self._wrapped(line, width)]
        if len(rows) > room:
            more = len(rows) - max(0, room - 1)
            rows = [*rows[: max(0, room - 1)], _muted(f"{more} more lines: e exports them")]
        return rows

    def _wrapped(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(
            self.look.text(clean(text, 600)),
            max(20, width - 2),
            break_on_hyphens=False,
            subsequent_indent="  ",
        )

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


def _muted(text: str) -> Row:
    return [(text, "muted")]
