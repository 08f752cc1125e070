"""Keys of the Monitor view."""

from __future__ import annotations

from textual.binding import Binding, BindingType

MONITOR_BINDINGS: list[BindingType] = [
    Binding("g", "grid", "Grid", id="monitor.grid", tooltip="all cards at once, or one large"),
    Binding("left_square_bracket", "card(-1)", "Card before", key_display="[", show=False,
            id="monitor.card_before", tooltip="the card before"),
    Binding("right_square_bracket", "card(1)", "Next card", key_display="]",
            id="monitor.next_card", tooltip="the next card"),
    Binding("z", "zoom", "Time", id="monitor.zoom",
            tooltip="time shown: 1, 5, 10 or 30 minutes"),
    Binding("space", "pause", "Pause", id="monitor.pause",
            tooltip="hold the picture; sampling goes on"),
    Binding("slash", "filter", "Filter", key_display="/", id="monitor.filter",
            tooltip="show only processes that contain a text"),
    Binding("escape", "unfilter", "Clear filter", show=False, id="monitor.unfilter",
            tooltip="show all processes again"),
]  # fmt: skip
