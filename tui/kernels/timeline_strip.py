"""One step over time: the device's lane over the lane of the CPU's launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual import events

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.format import milliseconds_text
from llmprof.tui.kit.roles import PHASE_ROLES

if TYPE_CHECKING:  # numpy is loaded with the first strip, not with the screen
    from llmprof.core.kernels.timeline_strip import Lane, Strip

LABEL = 9
DEEPEST = 2_000.0  # nanoseconds: the shortest stretch shown
STRIP_ZOOM = 2.0  # of a zoom
NO_LAUNCHES = "none: without a card an op runs where it is called"
_MS = 1e-6


class TimelineStrip(Canvas):
    """A stretch of one step; its own state is which stretch."""

    DEFAULT_CSS = """
    TimelineStrip { height: 6; }
    """

    def __init__(self) -> None:
        super().__init__(id="timeline-strip")
        self._strip: Strip | None = None
        self._note = ""
        self._wall = 0.0
        self.begin = self.end = 0.0  # nanoseconds from the step's start

    def show(self, strip: Strip | None, wall_ms: float, note: str) -> None:
        """Take a strip; another one is shown whole. Without one, the note says why."""
        if strip is not self._strip:
            self._strip = strip
            self._wall = wall_ms / _MS
            self.begin, self.end = 0.0, self._wall
        self._note = note
        self.repaint()

    def zoom(self, closer: bool, at: float = 0.5) -> None:
        """Show half or twice the stretch, keeping the point at a share of it in place."""
        span = self.end - self.begin
        wanted = max(DEEPEST, span / STRIP_ZOOM) if closer else min(self._wall, span * STRIP_ZOOM)
        self._move_to(self.begin + at * (span - wanted), wanted)

    def pan(self, by: float) -> None:
        """Move by a share of what is shown."""
        span = self.end - self.begin
        self._move_to(self.begin + by * span, span)

    def whole(self) -> None:
        """Show the whole step."""
        self._move_to(0.0, self._wall)

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading, device lane, launch lane, time axis."""
        look, strip = self.look, self._strip
        if strip is None or width <= LABEL + 4:
            return [heading(look, width, "Timeline"), [(look.text(self._note), "muted")]]
        from llmprof.core.kernels.timeline_strip import device_lane, launch_lane

        columns = width - LABEL
        span = f"{milliseconds_text(self.begin * _MS)} to {milliseconds_text(self.end * _MS)} ms"
        note = f"{self._note}, {span} of {milliseconds_text(self._wall * _MS)}"
        deep = max(1, height - 3)
        lane = device_lane(strip, self.begin, self.end, columns)
        device = self._bars("device" if strip.has_launches else "ops", lane, deep)
        if strip.has_launches:
            launch = self._bars("launches", launch_lane(strip, self.begin, self.end, columns), 1)
        else:
            why = look.text(NO_LAUNCHES[:columns])
            launch = [[(f"{'launches':<{LABEL}}", "muted"), (why, "muted")]]
        return [heading(look, width, "Timeline", note), *device, *launch, self._axis(columns)]

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Closer, around the pointer."""
        self._wheel(event, closer=True)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Farther, around the pointer."""
        self._wheel(event, closer=False)

    def _wheel(self, event: events.MouseEvent, *, closer: bool) -> None:
        room = max(1, self.size.width - LABEL)
        self.zoom(closer, min(1.0, max(0.0, (event.x - LABEL) / room)))
        event.stop()

    def _bars(self, label: str, lane: Lane, height: int) -> list[Row]:
        """A lane as bars of its share, `height` lines high, in the colours of the phases.

        Without colours the lowest line holds the phases' first letters.
        """
        glyphs = self.look.spark
        role = self._role_of()
        rows: list[Row] = []
        for level in range(height - 1, -1, -1):
            row: Row = [(f"{label if level == 0 else '':<{LABEL}}", "muted")]
            run, last = "", ""
            for share, phase in zip(lane.shares, lane.labels, strict=True):
                filled = min(1.0, max(0.0, share * height - level))
                char = " " if filled <= 0 else glyphs[round(filled * (len(glyphs) - 1))]
                here = role(phase)
                if self.colourless and level == 0 and char != " " and here != "muted":
                    char = here[0]
                if here != last and run:
                    row.append((run, last))
                    run = ""
                run, last = run + char, here
            rows.append([*row, (run, last)])
        return rows

    def _role_of(self) -> Callable[[int], str]:
        strip = self._strip

        def role(label: int) -> str:
            name = strip.text(label) if strip is not None else None
            return name if name in PHASE_ROLES else "muted"

        return role

    def _axis(self, columns: int) -> Row:
        """Times at the left end, the middle and the right end."""
        middle = (self.begin + self.end) / 2
        left, mid, right = (milliseconds_text(t * _MS) for t in (self.begin, middle, self.end))
        right = f"{right} ms"
        half = columns // 2
        text = left.ljust(half - len(mid) // 2) + mid
        return [(" " * LABEL, ""), (text + right.rjust(columns - len(text)), "axis")]

    def _move_to(self, begin: float, span: float) -> None:
        self.begin = min(max(0.0, begin), max(0.0, self._wall - span))
        self.end = self.begin + span
        self.repaint()
