"""Keys of the Kernels view."""

from __future__ import annotations

from textual.binding import Binding, BindingType

KERNELS_BINDINGS: list[BindingType] = [
    Binding("left_square_bracket", "phase(-1)", "Phase before", key_display="[", show=False,
            id="kernels.phase_before", tooltip="the phase before"),
    Binding("right_square_bracket", "phase(1)", "Phase", key_display="]",
            id="kernels.next_phase", tooltip="the next phase"),
    Binding("l", "list", "Classes", id="kernels.classes",
            tooltip="kernels or their classes, where there is room for one"),
    Binding("c", "case", "Case", id="kernels.next_case", tooltip="the next profiled case"),
    Binding("slash", "filter", "Filter", key_display="/", id="kernels.filter",
            tooltip="show only kernels that contain a text"),
    Binding("escape", "unfilter", "Clear filter", show=False, id="kernels.unfilter",
            tooltip="show all kernels again"),
    Binding("plus,equals_sign", "zoom(True)", "Closer", key_display="+", id="kernels.closer",
            tooltip="a shorter stretch of the timeline"),
    Binding("minus", "zoom(False)", "Farther", key_display="-", show=False,
            id="kernels.farther", tooltip="a longer stretch of the timeline"),
    Binding("left", "pan(-1)", "Earlier", show=False, id="kernels.earlier",
            tooltip="move the timeline to earlier times"),
    Binding("right", "pan(1)", "Later", show=False, id="kernels.later",
            tooltip="move the timeline to later times"),
    Binding("0", "whole", "Whole step", show=False, id="kernels.whole_step",
            tooltip="show the whole step on the timeline"),
    Binding("r,f5", "record", "Profile", id="kernels.record",
            tooltip="profile the kernels of what the set-up pane holds"),
    Binding("e", "export", "Export", id="kernels.export", tooltip="export the run's results"),
]  # fmt: skip
