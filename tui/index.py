"""Reads every run's journal in a thread and publishes one summary a run."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass

from llmprof.core.journal import replay
from llmprof.core.results import RunView
from llmprof.core.runlist import RunSummary, summarize
from llmprof.core.runs import Run, RunStore
from llmprof.core.text import clean
from llmprof.tui.curves import total_of

PERIOD_S = 1.0
JOIN_S = 2.0


@dataclass(frozen=True)
class ListedRun:
    """A run, its line in the list, and its figures in a few words."""

    run: Run
    summary: RunSummary
    headline: str


class RunIndex:
    """The newest list of summaries; journals are read again only when they have grown."""

    def __init__(self, store: RunStore, period_s: float = PERIOD_S) -> None:
        self._store = store
        self._period_s = period_s
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._known: dict[str, tuple[tuple[float, int], RunView]] = {}
        self.latest: tuple[ListedRun, ...] | None = None
        self.error: str | None = None
        self._thread = threading.Thread(target=self._run, name="llmprof-index", daemon=True)
        self._thread.start()

    def look_again(self) -> None:
        """Read the folder now rather than at the next period."""
        self._wake.set()

    def close(self) -> None:
        """End the thread; waits at most two seconds."""
        self._stop.set()
        self._wake.set()
        self._thread.join(JOIN_S)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._scan()
            except Exception as error:  # a bare thread's exceptions would vanish
                self.error = f"cannot list runs: {error}"
            self._wake.wait(self._period_s)
            self._wake.clear()

    def _scan(self) -> None:
        listed: list[ListedRun] = []
        runs = self._store.list()
        for run in runs:
            if self._stop.is_set():
                return
            with contextlib.suppress(OSError):  # deleted meanwhile
                listed.append(self._listed(run))
            if self.latest is None and len(listed) % 20 == 0:
                self.latest = tuple(listed)
        for gone in set(self._known) - {run.id for run in runs}:
            del self._known[gone]
        self.latest = tuple(listed)

    def _listed(self, run: Run) -> ListedRun:
        view = self._view(run)
        return ListedRun(run, summarize(run, view), headline(view))

    def _view(self, run: Run) -> RunView:
        try:
            found = run.journal.stat()
        except OSError:
            return RunView()
        stamp = found.st_mtime, found.st_size
        held = self._known.get(run.id)
        if held is None or held[0] != stamp:
            held = stamp, replay(run.journal)
            self._known[run.id] = held
        return held[1]


def headline(view: RunView) -> str:
    """The fastest and slowest measured case, or the only one."""
    means = [
        (total.mean, clean(case.case.model.name, 40), case.case.mode)
        for case in view.cases
        if case.status == "ok" and (total := total_of(case)) is not None
    ]
    if not means:
        return ""
    low, high = min(means), max(means)
    first = f"{low[1]} {low[2]} {low[0]:.4g} ms"
    return first if low == high else f"{first} … {high[1]} {high[0]:.4g} ms"
