"""How the screen ends: asked, by a signal, and what becomes of a run that goes on."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from typing import TYPE_CHECKING

from llmprof.core.store.run import NotOurs
from llmprof.core.system.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from llmprof.core.store.run import Run
    from llmprof.tui.kit.dialog import Dialog
    from llmprof.tui.session.screen_session import ScreenSession
    from llmprof.tui.terminal.textual_inside import InnerApp

    Ask = Callable[[Dialog[str], Callable[[str | None], None]], None]  # opens a dialog

LEAVE_PATIENCE_S = 20.0  # a stopping engine gets this long before it is killed
LEAVE_POLL_S = 0.1


class Ends:
    """Leaves the app with an exit code: 0 when asked, 128 + n by signal n.

    The run of a demo is a replay, which ends with the screen without asking.
    """

    def __init__(self, app: InnerApp, session: ScreenSession, ask: Ask, *, demo: bool) -> None:
        self._app = app
        self._session = session
        self._ask = ask
        self._demo = demo
        self._stopping = False
        self._question: Dialog[str] | None = None  # about a run, as long as it is open
        self.left_running: Run | None = None  # what goes on without this screen

    def leave(self, code: int) -> None:
        """End with an exit code; a run that goes on is asked about first."""
        run = self._session.going()
        if run is None:
            self._app.exit(return_code=code)
        elif self._demo:
            self._stop_and_exit(code)
        else:
            self._ask_about(run, code)

    def interrupt(self) -> None:
        """Ctrl+C: 130, asking about a run; once more, while asked, stops it."""
        app = self._app
        if self._question is not None and app.screen is self._question:
            self._stop_and_exit(128 + signal.SIGINT)
        else:
            while len(app.screen_stack) > 1:
                app.pop_screen()
            self.leave(128 + signal.SIGINT)

    def by_signal(self, number: int) -> None:
        """A signal that ends the screen; a run goes on, as over a lost connection."""
        if self._demo:
            self._stop_and_exit(128 + number)
            return
        self.left_running = self._session.going()
        self._app.exit(return_code=128 + number)

    @staticmethod
    def hang_ups_change_nothing() -> None:
        """The screen is ending: a connection that is lost now must not take its exit code."""
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def by_error(self) -> None:
        """An error that nobody caught: where it happened is told, and that a run goes on."""
        import traceback  # not needed for the first frame

        app = self._app
        self.left_running = None if self._demo else self._session.going()
        lines = [clean(line, 500) for line in traceback.format_exc().splitlines()]
        said = "llmprof: the screen failed; the lines above say where"
        app.end_saying("\n".join([*lines, said, ""]))

    def _ask_about(self, run: Run, code: int) -> None:
        from llmprof.tui.terminal.quit_question import (  # not needed for the first frame
            quit_question,
        )

        self._question = quit_question(run)
        self._ask(self._question, partial(self._answered, code, run))

    def look(self) -> None:
        """A question about a run that has ended meanwhile has no answer any more."""
        question = self._question
        if question is None or not question.is_current or self._session.going() is not None:
            return
        self._question = None
        question.dismiss(None)
        self._app.notify("the run has ended; q leaves")

    def _answered(self, code: int, run: Run, answer: str | None) -> None:
        if answer == "leave":
            self.left_running = run
            self._app.exit(return_code=code)
        elif answer == "stop":
            self._stop_and_exit(code)

    def _stop_and_exit(self, code: int) -> None:
        if not self._stopping:
            self._stopping = True
            self._app.run_worker(self._stop(code), group="stop", exit_on_error=False)

    async def _stop(self, code: int) -> None:
        """Stop the run and leave when its engine is gone; kill it when it takes too long."""
        app = self._app
        run = self._session.going()
        app.notify("stopping the run; what is measured is kept", timeout=LEAVE_PATIENCE_S)
        waited = 0.0
        while run is not None and self._session.going() is not None and waited < LEAVE_PATIENCE_S:
            if round(waited / LEAVE_POLL_S) % 10 == 0:
                try:
                    run.stop(force=waited >= LEAVE_PATIENCE_S / 2)
                except NotOurs:
                    self.left_running = run
                    break
                except OSError:
                    pass  # somebody else's run
            await asyncio.sleep(LEAVE_POLL_S)
            waited += LEAVE_POLL_S
        app.exit(return_code=code)
