"""The keys that work in every view."""

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
