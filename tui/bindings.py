"""Keys that work in every view."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from llmprof.tui.views import VIEWS

APP_BINDINGS: list[BindingType] = [
    *(
        Binding(tab.key, f"view('{tab.view}')", tab.label, show=False,
                id=f"view.{tab.view}", tooltip=f"go to the {tab.label} view")
        for tab in VIEWS
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
    Binding("ctrl+z", "suspend_process", "Suspend", show=False, id="app.suspend", priority=True,
            tooltip="back to the shell; fg returns"),
]  # fmt: skip
