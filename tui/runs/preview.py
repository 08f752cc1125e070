"""The run under the cursor: what it measured, how it was asked for, what is said of it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from llmprof.core.system.text import clean, counted
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, cut_words, heading, row_length
from llmprof.tui.kit.words import PART, common_parts, without_parts
from llmprof.tui.session.run_index import CaseLine, ListedRun

MOST_CASES = 200  # whose widths are looked at
LEAST_SAID = 12  # columns: of what is said of a case less is left out


class RunPreview(Canvas, can_focus=True):
    """Device and progress, verdict and what to try, the cases with figures, the command.

    Its own state: the case under the cursor, while it has the keys.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="preview.up", tooltip="case above"),
        Binding("down,j", "move(1)", "Down", show=False, id="preview.down", tooltip="case below"),
        Binding("home", "move(-1000000)", "First", show=False, id="preview.first",
                tooltip="first case"),
        Binding("end", "move(1000000)", "Last", show=False, id="preview.last",
                tooltip="last case"),
        Binding("enter", "select", "Open", show=False, id="preview.select",
                tooltip="what was alive in a case that ran out of memory; else open the run"),
    ]  # fmt: skip

    class Selected(Message):
        """A case was opened with enter."""

        def __init__(self, case: int) -> None:
            super().__init__()
            self.case = case

    DEFAULT_CSS = """
    RunPreview { height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__(id="run-preview")
        self._listed: ListedRun | None = None
        self._outlook: tuple[str, ...] = ()
        self._shared: tuple[str, ...] = ()  # parts of all cases' labels
        self._cursor = 0
        self._top = 0

    def show(self, listed: ListedRun | None, outlook: tuple[str, ...] = ()) -> None:
        """Take a run, with the verdict on it and what to try next where these are known."""
        if (listed, outlook) != (self._listed, self._outlook):
            before = self._listed
            if before is None or listed is None or before.run != listed.run:
                self._cursor = self._top = 0
            self._listed, self._outlook = listed, outlook
            cases = () if listed is None else listed.figures.cases
            self._shared = common_parts([case.label for case in cases])
            self.repaint()

    def action_move(self, by: int) -> None:
        """Another case."""
        cases = () if self._listed is None else self._listed.figures.cases
        self._cursor = max(0, min(self._cursor + by, len(cases) - 1))
        self.repaint()

    def action_select(self) -> None:
        """Open the case under the cursor."""
        if self._listed is not None and self._listed.figures.cases:
            self.post_message(self.Selected(self._cursor))

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Facts above, the command below, as many cases between as there is room for."""
        listed, look = self._listed, self.look
        if listed is None:
            return [heading(look, width, "Run"), [("the run under the cursor", "muted")]]
        figures, summary = listed.figures, listed.summary
        name, bare = look.text(clean(summary.label, 60)), self.has_focus and not figures.cases
        top: list[Row] = [heading(look, width, "Run", name, focused=bare)]
        facts = (summary.device, summary.experiment, PART.join(self._shared), figures.running)
        top.append([(self._facts([clean(fact, 120) for fact in facts if fact], width), "muted")])
        below = [_muted(line) for line in self._lines(figures.command, width, max(1, height // 4))]
        top += self._outlook_rows(width, (height - len(top) - len(below)) * 2 // 3)
        return [*top, *self._cases(width, max(1, height - len(top) - len(below))), *below]

    def _cases(self, width: int, room: int) -> list[Row]:
        """As many cases as there is room for: from the first, with the keys around the cursor."""
        assert self._listed is not None
        cases = self._listed.figures.cases
        cut = len(cases) > room
        shown = max(1, room - 1) if cut else room
        if self.has_focus:
            self._top = max(self._cursor - shown + 1, min(self._top, self._cursor))
        else:
            self._top = 0
        labels = [len(self._label(case)) for case in cases[:MOST_CASES]]
        figures = [len(self.look.text(case.figure)) for case in cases[:MOST_CASES]]
        widths = max(labels, default=0), max(figures, default=0)
        lines = [
            self._case(case, width, *widths, here=self.has_focus and at == self._cursor)
            for at, case in enumerate(cases[self._top : self._top + shown], self._top)
        ]
        if cut:
            more = len(cases) - len(lines)
            lines.append([(f"and {more} more: enter opens the run", "muted")])
        return lines

    def _facts(self, facts: list[str], width: int) -> str:
        """Whole facts, as many as there is room for; the last ones change and are kept."""
        said = [self.look.text(fact) for fact in facts]
        while len(said) > 1 and len("  ".join(said)) > width:
            del said[0]
        return cut_words("  ".join(said), width, self.look.ellipsis)

    def _label(self, case: CaseLine) -> str:
        """What tells a case from the others; what all share stands above them."""
        return self.look.text(without_parts(case.label, self._shared))

    def _outlook_rows(self, width: int, room: int) -> list[Row]:
        """The verdict, then each thing to try that there is room for as a whole."""
        if not self._outlook:
            return []
        verdict, *steps = self._outlook
        rows: list[Row] = [[(line, "title")] for line in self._lines(verdict, width, max(1, room))]
        left = len(steps)
        for step in steps:
            lines = self._wrapped(step, width)
            if len(rows) + len(lines) + (left > 1) > room:
                break
            rows, left = [*rows, *map(_muted, lines)], left - 1
        if left and len(rows) < room:
            rows.append(_muted(f"{counted(left, 'more suggestion')}: e exports them"))
        return rows

    def _lines(self, text: str, width: int, most: int) -> list[str]:
        """A text in lines, its end left out where it would take more than there are for it."""
        lines = self._wrapped(text, width)
        if len(lines) > most:
            lines = [*lines[: most - 1], f"{lines[most - 1]} {self.look.ellipsis}"]
        return lines

    def _wrapped(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(
            self.look.text(clean(text, 600)),
            max(20, width - 2),
            break_on_hyphens=False,
            subsequent_indent="  ",
        )

    def _case(self, case: CaseLine, width: int, longest: int, widest: int, *, here: bool) -> Row:
        """Label and figure, each below the others; what is said of it where there is room."""
        figure = self.look.text(case.figure).rjust(widest)
        room = max(8, width - len(figure) - 2)
        label = cut_words(self._label(case), room, self.look.ellipsis)
        pad = " " * max(0, min(longest, room) - len(label))
        row: Row = [(f"{label}{pad}", "text"), ("  ", ""), (figure, case.role)]
        said, left = self.look.text(case.said), width - row_length(row) - 2
        if len(said) > left:
            said = said.partition(":")[0]
        if said and left >= min(LEAST_SAID, len(said)):
            said = cut_words(said, left, self.look.ellipsis)
            row += [("  ", ""), (said, "muted")]
        if here:
            row = [(text, f"{role or 'text'}+cursor") for text, role in row]
            row.append((" " * max(0, width - row_length(row)), "text+cursor"))
        return row


def _muted(text: str) -> Row:
    return [(text, "muted")]
