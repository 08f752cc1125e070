"""The app: which run is watched, which view is up, and how it all ends."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, cast

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import Monochrome, NoColor
from textual.screen import Screen

from llmprof.core.runs import Run, RunStore
from llmprof.core.spec import Experiment, ModelShape
from llmprof.core.text import clean
from llmprof.tui import themes
from llmprof.tui.chart.plot import Row
from llmprof.tui.choices import Choices
from llmprof.tui.driver import BACKLOG, TerminalDriver
from llmprof.tui.feed import Feed, Snapshot
from llmprof.tui.index import RunIndex
from llmprof.tui.look import UNICODE, Look
from llmprof.tui.screens.ask import AskDialog, Choice
from llmprof.tui.screens.dialog import Dialog
from llmprof.tui.screens.export import ExportDialog
from llmprof.tui.screens.help import HelpDialog, active
from llmprof.tui.screens.view import View
from llmprof.tui.starter import Starter
from llmprof.tui.views import VIEWS

ALIVE_S = 0.5
STOP_S, FORCE_S = 15.0, 5.0
ENDING = (signal.SIGTERM, signal.SIGHUP)


@dataclass
class Setting:
    """What the app is given: where runs live, how they start, how it looks."""

    store: RunStore
    starter: Starter
    models: dict[str, ModelShape]
    choices: Choices = field(default_factory=Choices)
    look: Look = UNICODE
    refresh_hz: float = 4.0
    theme: str = themes.DARK.name
    watch: Run | None = None
    view: str = "bench"
    demo: bool = False  # a replay: it ends with the screen, without asking


class LlmprofApp(App[None]):
    """Follows one run at a time and lends its newest snapshot to the view in sight."""

    CSS_PATH = "app.tcss"
    TITLE = "llmprof"
    MODES = {view.VIEW: view for view in VIEWS}
    DEFAULT_MODE = "bench"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(view.KEY, f"view('{view.VIEW}')", view.LABEL, show=False,
                    id=f"app.{view.VIEW}", tooltip=f"the {view.LABEL} view")
            for view in VIEWS
        ),
        Binding("question_mark,f1", "help", "Help", key_display="?", id="app.help",
                tooltip="all keys"),
        Binding("t", "theme", "Theme", show=False, id="app.theme", tooltip="dark or light"),
        Binding("ctrl+p", "command_palette", "Commands", id="app.commands", priority=True,
                tooltip="find a command by name"),
        Binding("q,ctrl+q", "quit", "Quit", id="app.quit",
                tooltip="leave; asks what becomes of a run"),
        Binding("ctrl+c", "interrupt", "Interrupt", show=False, id="app.interrupt", priority=True,
                tooltip="leave with exit code 130; once more stops the run"),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, id="app.suspend",
                tooltip="back to the shell; fg returns"),
    ]  # fmt: skip

    def __init__(self, setting: Setting) -> None:
        driver = type("Driver", (TerminalDriver,), {"encoding": _encoding(setting.look)})
        super().__init__(driver_class=driver)
        self._filters = [NoColor() if isinstance(f, Monochrome) else f for f in self._filters]
        self.setting = setting
        self.look = setting.look
        self.models = setting.models
        self.choices = setting.choices
        self.run_alive = False
        self.run_shown: Run | None = None
        self.paused = False
        self.problem = ""
        self.left_running: Run | None = None
        self.snapshot = Snapshot()
        self.index = RunIndex(setting.store)
        self._feed: Feed | None = None
        self._own: Run | None = None
        self._interrupted = False
        self._since_alive = ALIVE_S
        self._listed: object = None

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our variables in themes that do not have them."""
        return themes.variables(self.current_theme.dark)

    def on_mount(self) -> None:
        """Signals, theme, first view, timer; the engine is warmed after the first frame."""
        loop = asyncio.get_running_loop()
        for number in ENDING:
            loop.add_signal_handler(number, self.end_by, number)
        loop.add_signal_handler(signal.SIGINT, self.action_interrupt)
        for theme in (themes.DARK, themes.LIGHT):
            self.register_theme(theme)
        self.theme = self.setting.theme
        self.set_class(self.look.ascii, "-ascii")
        if self.setting.watch is not None:
            self.watch_run(self.setting.watch)
        if self.setting.view != self.current_mode:
            self.switch_mode(self.setting.view)
        self.theme_changed_signal.subscribe(self, self._theme_changed)
        self.set_interval(1 / self.setting.refresh_hz, self.tick)
        if self.setting.watch is None:
            self.call_after_refresh(self._warm)

    def on_unmount(self) -> None:
        """Threads end, what waits unused ends, the terminal is given back."""
        self.index.close()
        if self._feed is not None:
            self._feed.close()
        self.setting.starter.dismiss()

    # What is watched

    @property
    def run(self) -> Run | None:  # type: ignore[override]
        """The run in sight."""
        return self.run_shown
