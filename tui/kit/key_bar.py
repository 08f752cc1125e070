"""The last line: the keys that work now, drawn as one row."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.binding import ActiveBinding
from textual.screen import Screen

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, row_length

KEY_GAP = 2


class KeyBar(Canvas):
    """Key and name of every shown binding; a click presses the key, hovering tells what it does.

    Textual's own Footer mounts a widget a key, anew whenever keys change.
    """

    DEFAULT_CSS = """
    KeyBar { height: 1; dock: bottom; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._places: list[tuple[int, int, ActiveBinding]] = []

    def on_mount(self) -> None:
        """Follow the focus and what can be done."""
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Whole keys only; where there is no room, the view's go before the app's."""
        kept = self._shown()
        while kept and sum(self._width(each) for each in kept) - KEY_GAP > width:
            of_view = [each for each in kept if each.node is not self.app]
            kept.remove((of_view or kept)[-1])
        row: Row = []
        self._places = []
        for each in kept:
            start = row_length(row)
            roles = ("key", "muted") if each.enabled else ("axis", "axis")
            row.append((self.app.get_key_display(each.binding), roles[0]))
            row.append((f" {each.binding.description}", roles[1]))
            self._places.append((start, row_length(row), each))
            row.append((" " * KEY_GAP, ""))
        return [row[:-1]]

    def on_click(self, event: events.Click) -> None:
        """Press the key."""
        found = self._at(event.x)
        if found is not None and found.enabled:
            self.app.simulate_key(found.binding.key)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Say what the key under the pointer does."""
        found = self._at(event.x)
        tip = None if found is None else found.tooltip or found.binding.description
        if tip != self.tooltip:
            self.tooltip = tip

    def _at(self, x: int) -> ActiveBinding | None:
        return next((each for start, end, each in self._places if start <= x - 1 < end), None)

    def _changed(self, _: Screen[object]) -> None:
        self.repaint()

    def _shown(self) -> list[ActiveBinding]:
        """Shown bindings, each action once."""
        first: dict[str, ActiveBinding] = {}
        for each in self.screen.active_bindings.values():
            if each.binding.show:
                first.setdefault(each.binding.action, each)
        return list(first.values())

    def _width(self, each: ActiveBinding) -> int:
        shown = f"{self.app.get_key_display(each.binding)} {each.binding.description}"
        return row_length([(shown, "")]) + KEY_GAP
