"""The whole Python stack of one allocation, where the timeline else stands."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from llmprof.core.events import LiveAllocation
from llmprof.core.memory.allocator_entries import AUTOGRAD, own_frame
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.format import bytes_text

WHEEL = 3
NO_STACK = {
    "": "It was there before the recorded steps, whose stacks alone are kept.",
    AUTOGRAD: "Autograd allocated it from a thread of its own, which runs no Python.",
}


class MemoryStack(Canvas):
    """Frames from the innermost out, the first that is not torch's marked; scrolls."""

    DEFAULT_CSS = """
    MemoryStack { height: 1fr; display: none; }
    """

    def __init__(self) -> None:
        super().__init__(id="memory-stack")
        self._live: LiveAllocation | None = None
        self.first = 0  # the topmost frame in sight

    def show(self, live: LiveAllocation | None) -> None:
        """Take an allocation; another one is shown from its innermost frame."""
        if live != self._live:
            self._live, self.first = live, 0
        self.repaint()

    def scroll_frames(self, by: int) -> None:
        """Move along the stack."""
        last = len(self._live.stack) if self._live is not None else 0
        self.first = min(max(0, self.first + by), max(0, last - (self.size.height - 1)))
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading, then one line a frame."""
        live = self._live
        if live is None:
            return [heading(self.look, width, "Stack")]
        what = f"{bytes_text(live.size * live.count)} of {clean(live.category, 20)}"
        if not live.stack:
            why = NO_STACK.get("" if not live.phase else live.what, "Its stack was not recorded.")
            return [heading(self.look, width, "Stack", what), [(self.look.text(why), "muted")]]
        room, count = height - 1, len(live.stack)
        seen = live.stack[self.first : self.first + room]
        note = f"{what}, innermost first"
        if count > room:
            note += f", frames {self.first + 1} to {self.first + len(seen)} of {count}, ← →"
        own = own_frame(live.stack)
        rows = [self._frame(frame, at == own, width) for at, frame in enumerate(seen, self.first)]
        return [heading(self.look, width, "Stack", note), *rows]

    def _frame(self, frame: str, own: bool, width: int) -> Row:
        mine = own_frame((frame,)) is not None
        place, _, name = clean(frame, 160).partition(" ")
        role = "title" if own else "text" if mine else "muted"
        return [
            (f"{self.look.cursor if own else ' '} ", "accent"),
            (f"{name:<28} ", role),
            (place[: max(0, width - 31)], "accent" if own else "muted"),
        ]

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Inwards."""
        event.stop()
        self.scroll_frames(-WHEEL)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Outwards."""
        event.stop()
        self.scroll_frames(WHEEL)
