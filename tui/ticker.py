"""Hands what is new to the view in sight, on a timer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmprof.tui.terminal.driver import BACKLOG

if TYPE_CHECKING:
    from llmprof.tui.app import LlmprofApp
    from llmprof.tui.session.run_index import RunIndex

LOADING_S = 0.05  # between looks at a run that is still being read


class Ticker:
    """Looks at the session's newest snapshot, and at the list of runs once it is wanted."""

    def __init__(self, app: LlmprofApp) -> None:
        self._app = app
        self._index: RunIndex | None = None
        self._listed: object = None

    @property
    def index(self) -> RunIndex:
        """The list of runs, which begins when somebody first asks for it."""
        if self._index is None:
            from llmprof.tui.session.run_index import RunIndex  # not needed for the first frame

            self._index = RunIndex(self._app.setting.store)
        return self._index

    def look_again(self) -> None:
        """Have the list of runs read anew, where there is one."""
        if self._index is not None:
            self._index.look_again()

    def tick(self) -> None:
        """Show what is new, unless the terminal still has frames to take."""
        app = self._app
        if getattr(app._driver, "backlog", 0) > BACKLOG:
            return
        changed = app.session.poll()
        listed = None
        if self._index is not None:
            self._index.follow(app.current_mode == "runs")
            listed = self._index.latest
        if changed or listed is not self._listed:
            self._listed = listed
            app.show_newest()

    def look_often(self) -> None:
        """Show a run as soon as what was written of it has been read."""
        self.tick()
        if self._app.session.loading:
            self._app.set_timer(LOADING_S, self.look_often)

    def close(self) -> None:
        """End the list's thread."""
        if self._index is not None:
            self._index.close()
