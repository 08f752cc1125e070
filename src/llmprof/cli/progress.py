"""Progress of a run on stderr; nothing when stderr is not a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bars
from rich.text import Text

from llmprof.core.figures.eta import remaining
from llmprof.core.report.loop_words import loop_line
from llmprof.core.state.view import CaseState, RunView


class ProgressLine:
    """Two bars: cases of the run, steps of the case; a line for each case that ends."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True)
        # The stream itself is asked, for variables such as FORCE_COLOR make of a file a terminal.
        there = sys.stderr is not None and sys.stderr.isatty()
        self._shown = there and self._console.is_terminal and not quiet
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[eta]}", markup=False),
            console=self._console,
            disable=not self._shown,
            transient=True,
        )
        self._ended: set[int] = set()
        self._logged = 0
        self._cases: TaskID | None = None
        self._steps: TaskID | None = None

    def __enter__(self) -> ProgressLine:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def update(self, view: RunView) -> None:
        """Show a view; lines about cases that have ended stay above the bars."""
        if not self._shown:
            return
        if self._cases is None:
            self._cases = self._bars.add_task("loading torch", total=None, eta="")
            self._steps = self._bars.add_task("", total=None, eta="", visible=False)
        if view.loops:
            said = loop_line(view.loops[0], time.monotonic_ns())
            self._bars.update(self._cases, description=said, total=None)
            return
        if view.environment is not None:
            self._show_bars(view)
        for state in view.cases:
            if state.done and state.index not in self._ended:
                self._ended.add(state.index)
                self._bars.console.print(line(state), soft_wrap=True)

    def _show_bars(self, view: RunView) -> None:
        assert self._cases is not None
        assert self._steps is not None
        self._bars.update(
            self._cases,
            description="cases",
            total=len(view.cases),
            completed=view.cases_done,
            eta=_left(remaining(view)),
        )
        current = view.current
        self._bars.update(self._steps, visible=current is not None)
        if current is not None:
            self._bars.update(
                self._steps,
                description=current.case.label,
                total=current.steps_planned,
                completed=current.steps_done,
                eta="",
            )


def line(state: CaseState) -> Text:
    """One line about a case that has ended."""
    text = Text(f"{state.status:>11}  ", style="green" if state.status == "ok" else "yellow")
    text.append(state.case.label, style="default")
    if state.total is not None:
        spread = "" if state.total.std is None else f" ± {state.total.std:.2f}"
        text.append(f"  {state.total.mean:.2f}{spread} ms a step", style="bold")
    elif state.failure is not None:
        text.append(f"  {state.failure.message}", style="dim")
    return text


def _left(seconds_left: float | None) -> str:
    if seconds_left is None:
        return ""
    minutes, seconds = divmod(round(seconds_left), 60)
    clock = f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
    return f"about {clock} left"
