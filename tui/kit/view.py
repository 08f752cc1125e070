"""Base of all views: a full screen with header and footer that takes snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.screen import Screen

from llmprof.tui.kit.canvas import Canvas
from llmprof.tui.kit.header import Header
from llmprof.tui.kit.key_bar import KeyBar
from llmprof.tui.kit.too_small import LEAST_HEIGHT, LEAST_WIDTH, TooSmall

if TYPE_CHECKING:
    from llmprof.tui.chart.cells import Row
    from llmprof.tui.kit.host import KitHost
    from llmprof.tui.kit.snapshot import Snapshot


class View(Screen[None]):
    """One way to look at runs. Subclasses name themselves, compose a body and take snapshots."""

    VIEW: ClassVar[str] = ""  # mode name and id
    HORIZONTAL_BREAKPOINTS = [
        (0, "-tiny"),
        (LEAST_WIDTH, "-narrow"),
        (100, "-wide"),
        (140, "-broad"),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (LEAST_HEIGHT, "-short"), (28, "-tall")]

    def __init__(self) -> None:
        super().__init__(id=self.VIEW)
        self._composed = False
        self._stood = False

    @property
    def host(self) -> KitHost:
        """The app, as far as any view needs it."""
        return cast("KitHost", self.app)

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
        self.call_after_refresh(self.stand)

    def stand(self) -> None:
        """The view stands: what its first frame did without follows, once; then the newest."""
        if not self._stood and self._in_use and self.host.frame_stands:
            self._stood = True
            self.compose_rest()
        self.catch_up()

    def compose_rest(self) -> None:
        """Mount what can wait until the first frame stands."""

    @property
    def complete(self) -> bool:
        """Whether everything that the view is made of is there."""
        return self._stood

    def catch_up(self) -> None:
        """Take the newest snapshot; nothing is so new that the first frame waits for it."""
        if self._in_use and self.host.frame_stands:
            self.set_status(self.host.header_status())
            self.take(self.host.snapshot)

    @property
    def _in_use(self) -> bool:
        """Whether the view's widgets are there, and are not going."""
        return self._composed and self.is_attached and self.app.is_running

    def set_status(self, status: Row) -> None:
        """What the header says at the right."""
        header = self.query_one(Header)
        header.status = status
        header.repaint()

    def repaint_all(self) -> None:
        """Draw every canvas anew, as after a change of theme."""
        for canvas in self.query(Canvas):
            canvas.restyle()
