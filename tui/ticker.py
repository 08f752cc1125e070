"""Hands what is new to the view in sight, on a timer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llmprof.tui.terminal.textual_inside import is_behind

if TYPE_CHECKING:
    from textual.app import App

    from llmprof.core.store.run import RunStore
    from llmprof.tui.session.run_index import RunIndex
    from llmprof.tui.session.screen_session import ScreenSession

LOADING_S = 0.05  # between looks at a run that is still being read


class Ticker:
    """Looks at the session's newest snapshot, and at the list of runs once it is wanted."""

    def __init__(
        self, app: App[Any], session: ScreenSession, store: RunStore, show: Callable[[], None]
    ) -> None:
        self._app = app
        self._session = session
        self._store = store
        self._show = show
        self._index: RunIndex | None = None
        self._listed: object = None

    @property
    def index(self) -> RunIndex:
        """The list of runs, which begins when somebody first asks for it."""
        if self._index is None:
            from llmprof.tui.session.run_index import RunIndex  # not needed for the first frame

            self._index = RunIndex(self._store)
        return self._index

    def look_again(self) -> None:
        """Have the list of runs read anew, where there is one."""
        if self._index is not None:
            self._index.look_again()

    def tick(self) -> None:
        """Show what is new, unless the terminal still has frames to take."""
        if is_behind(self._app):
            return
        changed = self._session.poll()
        listed = None
        if self._index is not None:
            self._index.follow(self._app.current_mode == "runs")
            listed = self._index.latest
        if changed or listed is not self._listed:
            self._listed = listed
            self._show()

    def look_often(self) -> None:
        """Show a run as soon as what was written of it has been read."""
        self.tick()
        if self._session.loading:
            self._app.set_timer(LOADING_S, self.look_often)

    def close(self) -> None:
        """End the list's thread."""
        if self._index is not None:
            self._index.close()
