"""Keys of the Memory view."""

from __future__ import annotations

from textual.binding import Binding, BindingType

MEMORY_BINDINGS: list[BindingType] = [
    Binding("left", "cursor(-1)", "Cursor", key_display="←", id="memory.cursor_left",
            show=False, tooltip="the cursor to an earlier column"),
    Binding("right", "cursor(1)", "Cursor", key_display="→", show=False,
            id="memory.cursor_right", tooltip="the cursor to a later column"),
    Binding("left_square_bracket", "phase(-1)", "Phase before", key_display="[", show=False,
            id="memory.phase_before", tooltip="the highest moment of the phase before"),
    Binding("right_square_bracket", "phase(1)", "Phase", key_display="]",
            id="memory.next_phase", tooltip="the highest moment of the next phase"),
    Binding("p", "peak", "Peak", show=False, id="memory.peak",
            tooltip="the cursor to the peak"),
    Binding("c", "case", "Case", id="memory.next_case", tooltip="the next recorded case"),
    Binding("plus,equals_sign", "zoom(True)", "Closer", key_display="+", id="memory.closer",
            tooltip="a shorter stretch around the cursor"),
    Binding("minus", "zoom(False)", "Farther", key_display="-", show=False,
            id="memory.farther", tooltip="a longer stretch around the cursor"),
    Binding("0", "whole", "Whole", show=False, id="memory.whole",
            tooltip="all recorded steps"),
    Binding("i", "axis", "Axis", id="memory.axis",
            tooltip="along the axis: time, or one allocation after the other"),
    Binding("l", "list", "Phases", id="memory.phases",
            tooltip="allocations or phases, where there is room for one"),
    Binding("v", "stack", "Stack", id="memory.stack",
            tooltip="the whole Python stack of the allocation, or the timeline again"),
    Binding("r,f5", "record", "Record", id="memory.record",
            tooltip="record the memory of what the set-up pane holds"),
    Binding("e", "export", "Export", show=False, id="memory.export",
            tooltip="export the run's results"),
]  # fmt: skip
