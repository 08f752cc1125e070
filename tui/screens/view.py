"""Base of all views: a full screen with header and footer that takes snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen

from llmprof.tui.chart.plot import Row
from llmprof.tui.feed import Snapshot
from llmprof.tui.widgets.canvas import Canvas
from llmprof.tui.widgets.header import Header
from llmprof.tui.widgets.keys import KeyBar
from llmprof.tui.widgets.too_small import HEIGHT, WIDTH, TooSmall

if TYPE_CHECKING:
    from llmprof.tui.app import LlmprofApp


class View(Screen[None]):
    """One way to look at runs. Subclasses name themselves, compose a body and take snapshots."""

    VIEW: ClassVar[str] = ""  # mode name and id
    LABEL: ClassVar[str] = ""
    KEY: ClassVar[str] = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (WIDTH, "-narrow"), (100, "-wide"), (140, "-broad")]
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (HEIGHT, "-short"), (28, "-tall")]

    def __init__(self) -> None:
        super().__init__(id=self.VIEW)
        self._composed = False

    @property
    def llmprof(self) -> LlmprofApp:
        """The app, by its own type."""
        return cast("LlmprofApp", self.app)

    def compose(self) -> ComposeResult:
        """Header, body, footer."""
        self._classify()
        yield TooSmall()
        yield Header()
        yield from self.compose_body()
        yield KeyBar()

    def _classify(self) -> None:
        """The classes of the window's size at once: later they would style every widget twice."""
        size = self.app.size
        for length, points in (
            (size.width, self.HORIZONTAL_BREAKPOINTS),
            (size.height, self.VERTICAL_BREAKPOINTS),
        ):
            name = [name for least, name in points if length >= least][-1]
            self.set_class(True, name, update=False)

    def compose_body(self) -> ComposeResult:
        """What lies between header and footer."""
        raise NotImplementedError

    def take(self, snapshot: Snapshot) -> None:
        """Show a snapshot; called when there is a new one, and when the view comes up."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """From now on there are widgets that can be given something to show."""
        self._composed = True

    def on_screen_resume(self, _: events.ScreenResume) -> None:
        """Show what came while another view was up."""
        self.call_after_refresh(self.catch_up)

    def catch_up(self) -> None:
        """Take the newest snapshot and repaint everything."""
        if self._composed and self.is_attached and self.app.is_running:  # else widgets are gone
            self.set_status(self.llmprof.status_row())
            self.take(self.llmprof.snapshot)

    def set_status(self, status: Row) -> None:
        """What the header says at the right."""
        header = self.query_one(Header)
        header.status = status
        header.repaint()

    def repaint_all(self) -> None:
        """Draw every canvas anew, as after a change of theme."""
        for canvas in self.query(Canvas):
            canvas.repaint()
