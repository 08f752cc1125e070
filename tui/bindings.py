"""Keys: those that work in every view, and those of the views that have many."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from llmprof.tui.views import VIEWS

BINDINGS: list[BindingType] = [
    *(
        Binding(view.KEY, f"view('{view.VIEW}')", view.LABEL, show=False,
                id=f"view.{view.VIEW}", tooltip=f"go to the {view.LABEL} view")
        for view in VIEWS
    ),
    Binding("question_mark,f1", "help", "Help", key_display="?", id="app.help",
            tooltip="all keys"),
    Binding("t", "theme", "Theme", show=False, id="app.theme", tooltip="dark or light"),
    Binding("ctrl+p", "command_palette", "Commands", id="app.commands", priority=True,
            tooltip="find a command by name"),
    Binding("q", "quit", "Quit", id="app.quit", tooltip="leave; asks what becomes of a run"),
    Binding("ctrl+q", "quit", "Quit", show=False, id="app.quit_anywhere", priority=True,
            tooltip="leave, from a field as well"),
    Binding("ctrl+c", "interrupt", "Interrupt", show=False, id="app.interrupt", priority=True,
            tooltip="leave with exit code 130; twice stops a run first"),
    Binding("ctrl+z", "suspend_process", "Suspend", show=False, id="app.suspend",
            tooltip="back to the shell; fg returns"),
]  # fmt: skip

BENCH: list[BindingType] = [
    Binding("r,f5", "run", "Run", id="bench.run", tooltip="measure what is ticked"),
    Binding("x", "stop", "Stop", id="bench.stop", tooltip="stop the run, keep its figures"),
    Binding("s", "setup", "Set-up", id="bench.setup", tooltip="show or hide the set-up pane"),
    Binding("space", "pause", "Pause", id="bench.pause",
            tooltip="hold the picture; the run goes on"),
    Binding("f", "follow", "Follow", show=False, id="bench.follow",
            tooltip="show the case that is running"),
    Binding("z", "zoom", "Zoom", show=False, id="bench.zoom",
            tooltip="time shown: the whole case, 5 minutes, 1 minute, 15 seconds"),
    Binding("l", "log", "Steps", show=False, id="bench.log",
            tooltip="results table or step log, where there is room for one"),
    Binding("g", "grid", "Coverage", show=False, id="bench.grid",
            tooltip="what became of every case, in a grid, in place of the charts"),
    Binding("c", "copy", "Copy command", show=False, id="bench.copy",
            tooltip="copy the equivalent command"),
    Binding("e", "export", "Export", id="bench.export",
            tooltip="write the results as Markdown, CSV or JSON"),
    Binding("escape", "back", "Back", show=False, id="bench.back",
            tooltip="from the set-up pane to the run"),
]  # fmt: skip

MEMORY: list[BindingType] = [
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
    Binding("a", "axis", "Axis", id="memory.axis",
            tooltip="along the axis: time, or one allocation after the other"),
    Binding("l", "list", "Phases", id="memory.phases",
            tooltip="allocations or phases, where there is room for one"),
    Binding("t", "stack", "Stack", id="memory.stack",
            tooltip="the whole Python stack of the allocation, or the timeline again"),
    Binding("r,f5", "record", "Record", id="memory.record",
            tooltip="record the memory of what the set-up pane has chosen"),
    Binding("e", "export", "Export", show=False, id="memory.export",
            tooltip="export the run's results"),
]  # fmt: skip
