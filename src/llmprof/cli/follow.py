"""Follow a run from a terminal: progress on stderr, Ctrl-C once stops, twice kills."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from llmprof.cli.exits import CRASHED, NOTHING, OK
from llmprof.cli.progress import ProgressLine
from llmprof.cli.streams import tell
from llmprof.core.engine.client import Engine
from llmprof.core.figures.case_device import describe_process, run_card
from llmprof.core.state.view import RunView
from llmprof.core.store.journal import Follower
from llmprof.core.store.run import Run

FOLLOW_POLL_S = 0.1
KILL_GRACE_S = 2.0
CRASHES = frozenset({"error", "killed", "stopped", "timeout"})
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Follow:
    """Reads a run's journal until its engine has ended.

    With an engine of our own, a signal stops the run; when only attached, it lets go of it.
    """

    def __init__(self, the_run: Run, engine: Engine | None = None, *, quiet: bool = False) -> None:
        self._run = the_run
        self._engine = engine
        self._quiet = quiet
        self._received: list[int] = []
        self._passed = 0  # signals given to the engine
        self._kill_at: float | None = None
        self._told = False  # that the card is shared

    def to_end(self) -> tuple[RunView, int | None]:
        """The last view, and the first signal that came, if one did."""
        follower = Follower(self._run.journal)
        try:
            with caught(self._note), ProgressLine(quiet=self._quiet) as progress:
                while True:
                    over = self._over()
                    while follower.poll():
                        pass
                    view = follower.view()
                    progress.update(view)
                    self._tell_of_others(view)
                    if over or (self._engine is None and self._received):
                        break
                    self._pass_on()
                    time.sleep(FOLLOW_POLL_S)
        finally:
            follower.close()
        return view, self._received[0] if self._received else None

    def _tell_of_others(self, view: RunView) -> None:
        """Warn once of somebody else's process on the run's card; its samples are journalled."""
        if self._engine is None or self._told or self._quiet or not view.cards:
            return
        card = run_card(view)
        held = card.last.processes if card is not None and card.last is not None else None
        others = [process for process in held or () if not process.ours]
        if others:
            self._told = True
            tell(
                f"llmprof: warning: the card is in use by {describe_process(others[0])}: "
                "what is measured beside it may be spoiled"
            )

    def _over(self) -> bool:
        return (
            self._engine.poll() is not None if self._engine is not None else not self._run.alive()
        )

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._received.append(number)  # no more than this inside a signal handler

    def _pass_on(self) -> None:
        """Give signals that came to the engine: the first stops it, the next kill it."""
        if self._engine is None or len(self._received) == self._passed:
            if self._kill_at is not None and time.monotonic() > self._kill_at and self._engine:
                self._engine.kill()
            return
        again = self._passed > 0 or len(self._received) > 1
        self._passed = len(self._received)
        if not self._run.stop(force=again):
            self._engine.dismiss()  # it has no run yet
        if again:
            self._kill_at = time.monotonic() + KILL_GRACE_S
        else:
            tell("\nstopping; once more to kill")


def exit_code_of(view: RunView) -> int:
    """Exit code of a run that was not interrupted: see exits.py."""
    if view.loops:
        return OK if any(loop.steps for loop in view.loops) else NOTHING
    states = {state.status for state in view.cases}
    if states & CRASHES:
        return CRASHED
    return OK if states & {"ok", "oom", "unsupported"} else NOTHING


@contextmanager
def caught(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Hand the signals that end a command to a function instead."""
    old = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, previous in old.items():
            signal.signal(number, previous)
