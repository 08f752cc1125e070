"""Keys of the Bench view."""

from __future__ import annotations

from textual.binding import Binding, BindingType

BENCH_BINDINGS: list[BindingType] = [
    Binding("r,f5", "run", "Run", id="bench.run", tooltip="measure what the set-up pane holds"),
    Binding("x", "stop", "Stop", id="bench.stop", tooltip="stop the run, keep its figures"),
    Binding("w", "watch", "Watch", id="bench.watch",
            tooltip="watch the run that is going, which this screen did not start"),
    Binding("s", "setup", "Set-up", id="bench.setup", tooltip="show or hide the set-up pane"),
    Binding("space", "pause", "Pause", id="bench.pause",
            tooltip="hold the picture; the run goes on"),
    Binding("f", "follow", "Follow", id="bench.follow",
            tooltip="show the case that is running"),
    Binding("z", "zoom", "Time", show=False, id="bench.zoom",
            tooltip="time shown: the whole case, 5 minutes, 1 minute, 15 seconds"),
    Binding("l", "log", "Steps", show=False, id="bench.log",
            tooltip="results table or step log, where there is room for one"),
    Binding("g", "grid", "Coverage", show=False, id="bench.grid",
            tooltip="what became of every case, in a grid, in place of the charts"),
    Binding("y", "copy", "Copy command", show=False, id="bench.copy",
            tooltip="copy the equivalent command"),
    Binding("K", "next('K')", "Kernels next", show=False, id="bench.next_kernels",
            tooltip="after a run: profile the kernels of its slowest case"),
    Binding("M", "next('M')", "Memory next", show=False, id="bench.next_memory",
            tooltip="after a run: record the memory of its largest case"),
    Binding("B", "next('B')", "bf16 next", show=False, id="bench.next_bf16",
            tooltip="after a run in fp32: the same in bf16"),
    Binding("e", "export", "Export", id="bench.export",
            tooltip="write the results as Markdown, CSV or JSON"),
    Binding("escape", "back", "Back", show=False, id="bench.back",
            tooltip="from the set-up pane to the run"),
]  # fmt: skip
