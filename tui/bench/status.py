"""Two lines: what runs now, how far it is, and when it ends."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len

from llmprof.core.figures.outcomes import cases_settled, left_out, to_resume
from llmprof.core.state.view import RunView
from llmprof.core.system.text import clean
from llmprof.tui.bench.next_steps import NextSteps
from llmprof.tui.bench.progress import progress
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, cut_words, row_length
from llmprof.tui.kit.format import clock_text
from llmprof.tui.kit.look import Look

CLAUSE = re.compile(r"; |, but |: that of ")  # where a verdict can end before its end
VERDICT = "Verdict. "  # before what a finished run came to
LEAST_BAR = 8  # columns of the progress bar


class StatusLines(Canvas):
    """The case and its state; a bar for the run with cases, elapsed and remaining time."""

    DEFAULT_CSS = """
    StatusLines { height: 2; }
    """

    def __init__(self) -> None:
        super().__init__(id="status")
        self._view: RunView | None = None
        self._alive = False
        self._note = self._other = ""
        self._following: NextSteps | None = None
        self._verdict = ""
        self._now: int | None = None
        self._missed: int | None = None  # steps since the picture is held

    def show(
        self, view: RunView | None, *, alive: bool, now_ns: int | None, note: str = "",
        other: str = "", following: NextSteps | None = None, verdict: str = "",
    ) -> None:  # fmt: skip
        """Take a view; `note` replaces what is being done; `other` is a run that is going too.

        verdict is what a finished run comes to, in place of its progress.
        """
        self._view, self._alive, self._note, self._now = view, alive, note, now_ns
        self._other, self._following, self._verdict = other, following, verdict
        self.repaint()

    def show_missed(self, steps: int | None) -> None:
        """Say that the picture is held, and how many steps have come since; None: it is not."""
        if steps != self._missed:
            self._missed = steps
            self.repaint()

    def keep_time(self, now_ns: int | None) -> None:
        """Let the clock go on; nothing else is new."""
        if now_ns is not None:
            self._now = now_ns
            self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Case line and bar; what to do first when there is no run."""
        look = self.look
        if self._note:
            return [[(look.text(clean(self._note, 200)), "bad")]]
        view = self._view
        going = self._going(width) if self._other and not self._alive else []
        if view is None and going:
            return [going, [("a run started now would spoil both; r asks first", "muted")]]
        if view is None:
            return [
                [("Ready", "title"), ("  press ", "muted"), ("r", "key"),
                 (" to measure what is ticked", "muted")],
                [("results and charts fill these panels", "muted")],
            ]  # fmt: skip
        row = self._case(view, width)
        if going and row_length(row) + 3 + row_length(going) <= width:
            row += [("   ", ""), *going]
        return [row, self._bar(view, width)] if view.cases or not view.loops else [row]

    def _going(self, width: int) -> Row:
        """The run that is going elsewhere, by its name where there is room, and the key for it."""
        tail: Row = [(" is going", "accent"), (": ", "muted"), ("w", "key"), (" to watch", "muted")]
        named: Row = [(f"Run {self.look.text(clean(self._other, 60))}", "title"), *tail]
        return named if row_length(named) <= width else [("A run", "title"), *tail]

    def _case(self, view: RunView, width: int) -> Row:
        look, state = self.look, progress(view)
        case = view.current
        if view.outcome is None and not self._alive:
            return self._and_next([("interrupted", "bad"),
                                   ("  its process is gone; what it measured is kept", "muted")],
                                  view, width)  # fmt: skip
        if case is None:
            role = "good" if view.outcome == "complete" else "warn"
            name = view.experiment.name if view.experiment else ""
            done: Row = [(state.doing, role)]
            named: Row = [*done, (f"  {look.text(clean(name, 60))}", "muted")]
            said, shorter = (self._and_next(row, view, width) for row in (named, done))
            return shorter if said == named and shorter != done else said
        doing = f"  {look.text(state.doing)}"
        if self._missed is not None:
            noun = "step" if self._missed == 1 else "steps"
            more = f" (+{self._missed:,} {noun})" if self._missed else ""
            doing = f"  display paused, the run goes on{more}"
        label, room = look.text(case.case.label), max(8, width - len(doing))
        return [(cut_words(label, room, look.ellipsis), "title"), (doing, "accent")]

    def _and_next(self, row: Row, view: RunView, width: int) -> Row:
        """What may be done after a run, with its keys, as far as there is room."""
        following = self._following or NextSteps()
        ways = [(step.key, step.label) for step in following.steps]
        over = view.outcome is not None or not self._alive
        if over and view.outcome != "complete" and to_resume(view):
            ways.append(("2 then r", "measures what it still lacks"))
        lead, said = "   next  ", row
        if not ways and following.why_none:
            why: Row = [(lead, "muted"), (self.look.text(following.why_none), "muted")]
            return [*row, *why] if row_length([*row, *why]) <= width else row
        for keys, label in ways:
            part: Row = [(lead, "muted"), (keys, "key"), (f" {self.look.text(label)}", "text")]
            if row_length([*said, *part]) > width:
                break
            said, lead = [*said, *part], "  "
        return said

    def _bar(self, view: RunView, width: int) -> Row:
        look, state = self.look, progress(view, self._now)
        aside = left_out(view)
        cases = f"  {cases_settled(view) - aside}/{len(view.cases) - aside} cases"
        cases += f", {aside} left out" if aside else ""
        tail = cases
        elapsed = f"  {clock_text(state.elapsed_s)} elapsed"
        left = ""
        if state.left_s is not None and view.outcome is None and self._alive:
            left = f"  about {clock_text(state.left_s)} left"
        for part in (left, elapsed):  # what is to come before what has been, where one fits alone
            if len(tail) + len(part) + LEAST_BAR <= width:
                tail = f"{tail}{part}" if part is left else tail.removesuffix(left) + part + left
        if self._verdict and view.outcome is not None:
            return self._concluded(clean(self._verdict, 400), (f"{cases}{elapsed}", cases), width)
        size = max(LEAST_BAR, width - len(tail))
        row = bar(look, state.run_share or 0.0, size)
        return [*row, (look.text(tail), "muted")]

    def _concluded(self, verdict: str, tails: Sequence[str], width: int) -> Row:
        """What the run came to, whole; beside it how much was measured, as there is room."""
        verdict = self.look.text(verdict)
        bare = verdict.removeprefix(VERDICT)
        for tail in map(self.look.text, (*tails, "")):
            for said in (verdict, bare):
                if cell_len(said + tail) <= width:
                    return [(said.ljust(width - cell_len(tail)), "title"), (tail, "muted")]
        more = self.look.ellipsis
        for clause in _clauses(bare):
            if cell_len(clause + more) <= width:
                return [(clause + more, "title")]
        return [(cut_words(bare, width, more), "title")]


def _clauses(verdict: str) -> list[str]:
    """What a verdict says up to the end of each of its clauses but the last, the longest first."""
    ends = sorted({match.start() for match in CLAUSE.finditer(verdict)}, reverse=True)
    return [verdict[:end] for end in ends]


def bar(look: Look, share: float, width: int) -> Row:
    """A progress bar of a share from 0 to 1."""
    full = round(min(1.0, max(0.0, share)) * width)
    return [(look.bar[0] * full, "accent"), (look.bar[1] * (width - full), "rule")]
