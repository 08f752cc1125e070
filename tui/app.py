"""The app: views and dialogs over one session, and how it all ends."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.command import CommandPalette
from textual.screen import Screen
from textual.theme import Theme

from llmprof.core.system.text import cause, clean
from llmprof.tui.bindings import APP_BINDINGS
from llmprof.tui.kit.colors import DARK_THEME, LIGHT_THEME, few_colors, theme_variables
from llmprof.tui.kit.roles import Palette
from llmprof.tui.kit.view import View
from llmprof.tui.session.header_status import header_status
from llmprof.tui.session.screen_session import ALIVE_S, ScreenSession
from llmprof.tui.session.setting import Setting
from llmprof.tui.terminal.driver import TerminalDriver
from llmprof.tui.terminal.ends import Ends
from llmprof.tui.terminal.textual_inside import InnerApp
from llmprof.tui.ticker import Ticker
from llmprof.tui.views import VIEWS

if TYPE_CHECKING:
    from llmprof.core.spec.experiment import Experiment
    from llmprof.core.store.run import Run
    from llmprof.tui.chart.cells import Row
    from llmprof.tui.host import Exportable
    from llmprof.tui.kit.dialog import Dialog
    from llmprof.tui.kit.host import Tab
    from llmprof.tui.kit.snapshot import Snapshot
    from llmprof.tui.session.run_index import RunIndex
    from llmprof.tui.starts import Starts

LOOP = "loop"
OFFERING = (VIEWS[0].view, LOOP)  # views with a key for the run that goes on beside
AROUND_S = 3.0  # between looks for runs that others have started


class LlmprofApp(InnerApp):
    """Takes the session's newest snapshot on a timer and lends it to the view in sight."""

    CSS_PATH = "app.tcss"
    TITLE = "llmprof"
    MODES = {tab.view: tab for tab in VIEWS}
    DEFAULT_MODE = VIEWS[0].view
    BINDINGS: ClassVar[list[BindingType]] = APP_BINDINGS
    _variables: tuple[Theme | None, dict[str, str]] = (None, {})  # of the theme in use

    def __init__(self, setting: Setting) -> None:
        driver = type("Driver", (TerminalDriver,), {"encoding": setting.encoding})
        super().__init__(driver_class=driver)
        self.keep_attributes_without_colour()
        for theme in (DARK_THEME, LIGHT_THEME):
            self.register_theme(theme)
        self.set_reactive(LlmprofApp.theme, setting.theme)
        self.set_class(setting.look.ascii, "-ascii")
        self.set_class(self.no_color, "-no-color")
        self.setting = setting
        self.look = setting.look
        self.models = setting.models
        self.choices = setting.choices
        self.session = ScreenSession(
            setting.store, setting.starter, period_s=1 / setting.refresh_hz
        )
        self.session.watch(setting.watch)
        self.frame_stands = False  # the first one
        self.palette = self._palette()
        self.ends = Ends(self, self.session, self.ask, demo=setting.demo)
        self.ticker = Ticker(self, self.session, setting.store, self.show_newest)
        self._styled = self.get_css_variables()
        self.stylesheet.set_variables(self._styled)

    def get_css_variables(self) -> dict[str, str]:
        """The theme's, among 16 colours where there are no more; made once a theme, for Textual
        asks with every view.
        """
        theme = self.current_theme
        if self._variables[0] is not theme:
            few = self.console.color_system == "standard"
            found = super().get_css_variables()
            self._variables = theme, found | few_colors(theme.dark) if few else found
        return self._variables[1]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our variables in themes that do not have them."""
        return theme_variables(self.current_theme.dark)

    def refresh_css(self, animate: bool = True) -> None:
        """Parse the styles anew where colours changed; Textual asks with every new view."""
        variables = self.get_css_variables()
        if variables != self._styled:
            self._styled = variables
            super().refresh_css(animate)

    def on_load(self) -> None:
        """Tasks start as on Python 3.11: eager ones compose inputs before a screen is there."""
        asyncio.get_running_loop().set_task_factory(None)

    def on_mount(self) -> None:
        """Signals, theme, first view, timer; the engine is warmed after the first frame."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.ends.by_signal, number)
        loop.add_signal_handler(signal.SIGINT, self.action_interrupt)
        if self.setting.view != self.current_mode:
            self.switch_mode(self.setting.view)
        self.theme_changed_signal.subscribe(self, self._theme_changed)
        self.app_resume_signal.subscribe(self, self._resumed)
        self.set_interval(1 / self.setting.refresh_hz, self.ticker.tick)
        self.set_interval(ALIVE_S, self.ends.look)
        self.ticker.look_often()
        self.call_after_refresh(self._show_first_frame)

    def on_unmount(self) -> None:
        """Threads end, and what waits unused."""
        if not self.is_headless:
            self.ends.hang_ups_change_nothing()
        self.ticker.close()
        self.session.close()

    # Data

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot of the watched run, the held one while paused."""
        return self.session.snapshot

    @property
    def index(self) -> RunIndex:
        """The list of runs, which begins when somebody first asks for it."""
        return self.ticker.index

    @property
    def tabs(self) -> Sequence[Tab]:
        """All views, in order."""
        return VIEWS

    def header_status(self) -> Row:
        """Device and state of the run that is watched."""
        return header_status(self.session, self.look, replayed=self.setting.demo)

    @property
    def base_view(self) -> View | None:
        """The view under any dialog."""
        stack = self.screen_stack
        return stack[0] if stack and isinstance(stack[0], View) else None

    def show_newest(self) -> None:
        """Hand the newest snapshot to the view; say which training has begun meanwhile."""
        if (begun := self.session.take_begun()) is not None:
            self._show_begun(begun)
        view = self.base_view
        if view is not None:
            view.catch_up()

    def _show_begun(self, training: Run) -> None:
        """Open it where somebody waits for one; else say how."""
        if self.session.run is None and self.current_mode == LOOP:
            self.open_run(training)
            return
        how = "w shows it" if self.current_mode in OFFERING else "6, then w, shows it"
        name = self.look.text(clean(training.label, 60))
        self.notify(how, title=f"Training {name} has begun", markup=False)

    # Runs

    def watch_run(self, run: Run | None) -> None:
        """Show another run."""
        self.session.watch(run)
        self.ticker.look_often()
        self.show_newest()

    def open_run(self, run: Run) -> None:
        """Show another run, in the view that is made for it."""
        self.watch_run(run)
        self.action_view(LOOP if run.is_loop else VIEWS[0].view)

    def start_run(
        self, experiment: Experiment, command: tuple[str, ...], then: Callable[[], None]
    ) -> None:
        """Start a run, after asking where it is long, too large or beside another; then then()."""
        self.starts.begin(experiment, command, partial(self._started, then))

    def _started(self, then: Callable[[], None]) -> None:
        then()
        self.show_newest()
        self.ticker.look_again()

    def resume_run(self, run: Run, then: Callable[[], None]) -> None:
        """Measure what a run still lacks; then then()."""
        self.starts.resume(run, partial(self._started, then))

    @cached_property
    def starts(self) -> Starts:
        """What starts runs, once the first is asked for."""
        from llmprof.tui.starts import Starts  # not needed for the first frame

        return Starts(self, self.session, self.ask, self.open_run, demo=self.setting.demo)

    def stop_run(self, run: Run | None = None) -> None:
        """Ask a run's engine to stop, by default the watched one's."""
        target = run or self.session.run
        try:
            stopping = target is not None and target.stop()
        except OSError as error:  # somebody else's
            self.notify(f"cannot stop it: {cause(error)}", severity="error", markup=False)
            return
        if stopping:
            self.notify("stopping; what is measured is kept", markup=False)
        else:
            self.notify("no run is going on here", severity="warning")

    def toggle_pause(self) -> None:
        """Hold the picture, or let it go on."""
        self.session.toggle_pause()
        self.session.poll()
        self.show_newest()

    def export(self, run: Run | None) -> None:
        """Open the export dialog for a run."""
        if run is None:
            self.notify("no run to export yet", severity="warning")
            return
        from llmprof.tui.runs.run_export import RunExport  # not needed for the first frame

        self.export_of(RunExport(run))

    def export_of(self, what: Exportable) -> None:
        """Open the export dialog."""
        from llmprof.tui.runs.export import ExportDialog  # not needed for the first frame

        self.ask(ExportDialog(what), self._exported)

    def _exported(self, path: str | None) -> None:
        if path is not None:
            self.copy_to_clipboard(path)
            self.notify(self.look.text(clean(path, 300)), title="Written; path copied",
                        markup=False)  # fmt: skip

    def ask(self, dialog: Dialog[str], then: Callable[[str | None], None]) -> None:
        """Open a dialog, one at a time."""
        if len(self.screen_stack) == 1:
            self.push_screen(dialog, then)

    # Commands

    def action_view(self, name: str) -> None:
        """Go to a view."""
        if len(self.screen_stack) == 1:
            self.switch_mode(name)

    def action_help(self) -> None:
        """All keys that work now."""
        from llmprof.tui.help import HelpDialog, active

        bindings = active(self.screen.active_bindings)
        self.ask(HelpDialog(bindings), lambda _: None)

    def action_command_palette(self) -> None:
        """Find a command by name."""
        if not CommandPalette.is_open(cast("App[object]", self)):
            self.push_screen(CommandPalette(placeholder="find a command", id="--command-palette"))

    def action_theme(self) -> None:
        """Dark or light."""
        dark = self.current_theme.dark
        self.theme = LIGHT_THEME.name if dark else DARK_THEME.name

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Everything that can be done now, as "area: verb"."""
        from llmprof.tui.commands import commands

        return commands(self, screen)

    def _palette(self) -> Palette:
        return Palette(self.get_css_variables(), no_color=self.no_color)

    def _theme_changed(self, _: Theme) -> None:
        self.palette = self._palette()
        view = self.base_view
        if view is not None:
            self.call_after_refresh(view.repaint_all)

    def _resumed(self, _: object) -> None:
        """Back from the shell: the terminal shows none of what Textual takes to stand there."""
        self.screen.refresh()

    def _show_first_frame(self) -> None:
        """Textual drops what it draws while the app is mounted: draw it now, then go on."""
        self.screen.refresh()
        self.call_after_refresh(self._after_first_frame)

    def _after_first_frame(self) -> None:
        self.frame_stands = True
        if (view := self.base_view) is not None:
            view.stand()
        if not gc.isenabled():  # the command line leaves it off until now
            gc.freeze()  # what lives as long as the screen need not be looked at again
            gc.enable()
        if not self.setting.demo:
            self._look_around()
            self.set_interval(AROUND_S, self._look_around)
        if self.setting.watch is None:
            warm = self.session.starter.warm
            self.run_worker(warm, thread=True, group="engine", exit_on_error=False)

    def _look_around(self) -> None:
        """In a thread: there may be many runs."""
        look = self.session.look_around
        self.run_worker(look, thread=True, group="around", exclusive=True, exit_on_error=False)

    # Ends

    @property
    def left_running(self) -> Run | None:
        """The run that goes on without this screen."""
        return self.ends.left_running

    def failed(self) -> None:
        """An error that nobody caught."""
        self.ends.by_error()

    async def action_quit(self) -> None:
        """Leave; asks what becomes of a run that goes on."""
        self.ends.leave(0)

    def action_interrupt(self) -> None:
        """Ctrl+C: leave with 130, asking about a run; once more stops the run."""
        self.ends.interrupt()
