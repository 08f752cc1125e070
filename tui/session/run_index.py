"""Reads every run's journal in a thread and publishes one summary a run."""

from __future__ import annotations

import contextlib
import shlex
import threading
from dataclasses import dataclass, field, replace

from llmprof.core.figures.eta import remaining
from llmprof.core.figures.loops import steps_per_s
from llmprof.core.figures.memory_peaks import peaks_of
from llmprof.core.report.loop_words import rate_words
from llmprof.core.state.histories import SeriesView
from llmprof.core.state.loop_columns import LoopRows
from llmprof.core.state.step_columns import StepsView
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.summary import stability
from llmprof.core.store.files import files_of
from llmprof.core.store.journal import Follower
from llmprof.core.store.listing import RunSummary, summarize_run
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.text import clean, clock
from llmprof.tui.kit.format import mean_interval, memory_text, milliseconds_text
from llmprof.tui.session.curves import total_of
from llmprof.tui.session.feed import THREAD_JOIN_S

LIST_PERIOD_S = 1.0
Stamp = tuple[float, int]  # time of change, bytes


@dataclass(frozen=True)
class CaseLine:
    """A case in a few words: what it is, its figure, what is said of it, and a role."""

    label: str
    figure: str
    said: str
    role: str


@dataclass(frozen=True)
class RunFigures:
    """What is kept of a run's figures."""

    headline: str = ""  # fastest and slowest case
    span: str = ""  # the same, figures alone
    cases: tuple[CaseLine, ...] = ()
    command: str = ""
    running: str = ""  # the case, its step, and the time left
    view: RunView = field(default_factory=RunView)  # without steps


@dataclass(frozen=True)
class ListedRun:
    """A run, its line in the list, and its figures in a few words."""

    run: Run
    summary: RunSummary
    figures: RunFigures


class RunIndex:
    """The list of runs while somebody looks at it; reads only what journals have grown by."""

    def __init__(self, store: RunStore, period_s: float = LIST_PERIOD_S) -> None:
        self._store = store
        self._period_s = period_s
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._wanted = False
        self._settled: dict[str, tuple[Stamp, RunFigures]] = {}
        self._growing: dict[str, Follower] = {}
        self.latest: tuple[ListedRun, ...] | None = None
        self.error: str | None = None
        self._thread = threading.Thread(target=self._run, name="llmprof-index", daemon=True)
        self._thread.start()

    def follow(self, wanted: bool) -> None:
        """Keep the list up to date from now on, or no longer."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._wake.set()

    def look_again(self) -> None:
        """Read the folder now rather than at the next period."""
        self._wake.set()

    def drop(self, run: Run) -> None:
        """A run was deleted: it is listed no longer."""
        if self.latest is not None:
            self.latest = tuple(each for each in self.latest if each.run != run)

    def close(self) -> None:
        """End the thread; waits at most two seconds."""
        self._stop.set()
        self._wake.set()
        self._thread.join(THREAD_JOIN_S)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._period_s if self._wanted else None)
            self._wake.clear()
            if self._wanted and not self._stop.is_set():
                try:
                    self._scan()
                except Exception as error:  # a bare thread's exceptions would vanish
                    self.error = f"cannot list runs: {error}"
            elif not self._wanted:
                self._forget(set())
        self._forget(set())

    def _scan(self) -> None:
        listed: list[ListedRun] = []
        runs = self._store.list()
        self._forget({run.id for run in runs})
        for run in runs:
            if self._stop.is_set():
                return
            with contextlib.suppress(OSError):  # deleted meanwhile
                figures = self._read(run)
                listed.append(ListedRun(run, summarize_run(run, figures.view), figures))
            if self.latest is None and len(listed) % 20 == 0:
                self.latest = tuple(listed)
        self.latest = tuple(each for each in listed if each.run.path.is_dir())

    def _read(self, run: Run) -> RunFigures:
        """The run without its steps, and its figures; a run that grew is read on from there."""
        try:
            stamp = _stamp(run)
        except OSError:
            return RunFigures()
        held = self._settled.get(run.id)
        if held is None or held[0] != stamp:
            held = self._settled[run.id] = stamp, self._figures(run)
        if run.id in self._growing and not run.alive():
            self._growing.pop(run.id).close()
        return held[1]

    def _figures(self, run: Run) -> RunFigures:
        """What its files say now; nothing where one can't be read, until they change."""
        follower = self._growing.get(run.id) or Follower(run.journal)
        self._growing[run.id] = follower
        try:
            follower.look_again()
            while follower.poll() and not self._stop.is_set():
                pass
            return figures_of(follower.view())
        except OSError:
            self._growing.pop(run.id).close()
            return RunFigures()

    def _forget(self, kept: set[str]) -> None:
        """Close the journals of runs that are gone."""
        for gone in set(self._growing) - kept:
            self._growing.pop(gone).close()
        for gone in set(self._settled) - kept if kept else ():
            del self._settled[gone]


def _stamp(run: Run) -> Stamp:
    """What changes where a run does: of ranks and of how a loop ended there are files of their own.

    Raises OSError.
    """
    found = [path.stat() for path in files_of(run.journal)]
    return max(each.st_mtime for each in found), sum(each.st_size for each in found)


def figures_of(view: RunView) -> RunFigures:
    """What is kept of a run that was read."""
    first, span = headline(view)
    return RunFigures(
        first,
        span,
        tuple(map(case_line, view.cases)),
        shlex.join(view.command),
        _running(view),
        without_steps(view),
    )


def case_line(state: CaseState) -> CaseLine:
    """A case, with its mean and standard deviation or what became of it."""
    label, total = clean(state.case.label, 120), total_of(state)
    if state.failure is not None:
        role = "warn" if state.failure.outside else "bad"
        return CaseLine(label, state.status, clean(state.failure.message, 200), role)
    peak = peaks_of(state).told
    if total is None and peak is not None:
        size, kind = peak
        return CaseLine(label, memory_text(size), f"peak {kind}", "text")
    if total is None:
        return CaseLine(label, state.status, "", "muted" if state.status == "pending" else "text")
    figure = mean_interval(total.mean, total.std)
    return CaseLine(label, f"{figure} ms", stability(total) if state.done else "", "text")


def _running(view: RunView) -> str:
    """What a run is at, as far as its journal says."""
    current = view.current
    if view.outcome is not None or current is None:
        return ""
    left = remaining(view)
    about = "" if left is None else f", about {clock(left)} left"
    return f"step {current.steps_done} of {current.steps_planned}{about}"


def without_steps(view: RunView) -> RunView:
    """What a list needs of a run, without what makes it large."""
    empty = StepsView()
    cases = tuple(replace(case, warmup=empty, measured=empty) for case in view.cases)
    loops = tuple(replace(loop, rows=LoopRows()) for loop in view.loops)
    bare = SeriesView()
    return replace(
        view, cases=cases, loops=loops, host_cpu=bare, host_memory=bare, cards={}, log=()
    )


def headline(view: RunView) -> tuple[str, str]:
    """The fastest and slowest measured case, or the only one; and their figures alone.

    Of a tracked loop its pace.
    """
    if view.loops:
        rate = steps_per_s(view.loops[0])
        return ("", "") if rate is None else (f"{rate_words(rate)} lately", rate_words(rate))
    means = [
        (total.mean, f"{clean(case.case.model.name, 40)} {case.case.mode}")
        for case in view.cases
        if case.status == "ok" and (total := total_of(case)) is not None
    ]
    if not means:
        return "", ""
    (low, fastest), (high, slowest) = min(means), max(means)
    least, most = milliseconds_text(low), milliseconds_text(high)
    if len(means) == 1:
        return f"{fastest} {least} ms", f"{least} ms"
    figures = f"{least} … {most} ms"
    if fastest == slowest:  # a switch apart, which has no room here
        return f"{fastest} {figures}", figures
    return f"{fastest} {least} ms … {slowest} {most} ms", figures
