"""Keys of the Runs view."""

from __future__ import annotations

from textual.binding import Binding, BindingType

RUNS_BINDINGS: list[BindingType] = [
    Binding("w,enter", "open", "Open", key_display="enter", id="runs.open",
            tooltip="open the run, live if it runs"),
    Binding("r,f5", "resume", "Resume", id="runs.resume",
            tooltip="measure what the run still lacks"),
    Binding("x", "stop", "Stop", id="runs.stop", tooltip="stop the run under the cursor"),
    Binding("e", "export", "Export", id="runs.export", tooltip="export the run's results"),
    Binding("space", "mark", "Mark", id="runs.mark",
            tooltip="mark the run as A or B of a comparison, or take the mark away"),
    Binding("c", "compare", "Compare", id="runs.compare", tooltip="compare the two marked runs"),
    Binding("n", "rename", "Rename", id="runs.rename", tooltip="give the run a name"),
    Binding("d,delete", "delete", "Delete", id="runs.delete",
            tooltip="delete the run, after asking"),
    Binding("slash", "filter", "Filter", key_display="/", id="runs.filter",
            tooltip="show only runs that contain a text"),
    Binding("escape", "unfilter", "Clear filter", show=False, id="runs.unfilter",
            tooltip="show all runs again"),
]  # fmt: skip
