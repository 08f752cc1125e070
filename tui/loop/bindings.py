"""Keys of the Loop view."""

from __future__ import annotations

from textual.binding import Binding, BindingType

LOOP_BINDINGS: list[BindingType] = [
    Binding("z", "zoom", "Time", id="loop.zoom",
            tooltip="time shown: 5 minutes, 30 minutes, all, 1 minute"),
    Binding("space", "pause", "Pause", id="loop.pause",
            tooltip="hold the picture; the training goes on"),
    Binding("left_square_bracket", "value(-1)", "Value before", key_display="[", show=False,
            id="loop.value_before", tooltip="the logged value before"),
    Binding("right_square_bracket", "value(1)", "Value", key_display="]", id="loop.value",
            tooltip="the next of the logged values"),
    Binding("w", "watch", "Watch", id="loop.watch",
            tooltip="watch the training that goes on beside the one in sight"),
    Binding("e", "export", "Export", id="loop.export",
            tooltip="write the tables as Markdown, CSV or JSON"),
]  # fmt: skip
