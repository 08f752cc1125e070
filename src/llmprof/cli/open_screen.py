"""Opens the screen: the Textual app, over the runs that are there."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from llmprof.cli.exits import USAGE, UserError, drop_output
from llmprof.cli.streams import put
from llmprof.core.catalog.models import load_models
from llmprof.core.spec.shape import SpecError
from llmprof.core.store.run import Run, RunStore

if TYPE_CHECKING:
    from llmprof.tui.session.monitoring import Monitoring
    from llmprof.tui.session.starter import Starter


def open_screen(
    *,
    watch: Run | None = None,
    view: str | None = None,
    refresh: float = 4.0,
    ascii_only: bool | None = None,
    theme: str = "dark",
    store: RunStore | None = None,
    starter: Starter | None = None,
    demo: bool = False,
    samples: Mapping[str, Run] | None = None,
    monitoring: Monitoring | None = None,
) -> int:
    """Open the app and wait for its end; 128 + n when signal n ended it.

    watch is the run to show first, view the name of the view, by default the one that shows it;
    without either the newest tracked loop that goes on is shown. samples are runs by the view
    that shows them while the watched run has nothing for it. Raises UserError where there is
    no terminal to draw on or a preset file can't be read.
    """
    require_terminal()
    try:
        models = load_models()
    except SpecError as error:
        raise UserError(str(error)) from error
    gc.disable()  # until the first frame stands: nothing of what is built till then is garbage
    from llmprof.tui.app import LlmprofApp
    from llmprof.tui.kit.look import choose_look, is_utf8
    from llmprof.tui.session.remembered import recall
    from llmprof.tui.session.setting import Setting
    from llmprof.tui.session.starter import EngineStarter

    store = store or RunStore()
    if watch is None and view is None:
        watch = store.newest_loop()
    if view is None:
        view = "loop" if watch is not None and watch.is_loop else "bench"
    app = LlmprofApp(
        Setting(
            store=store,
            starter=starter or EngineStarter(),
            models=models,
            choices=recall(models),
            look=choose_look(ascii_only),
            encoding="utf-8" if is_utf8() else "ascii",
            refresh_hz=refresh,
            theme=f"llmprof-{theme}",
            watch=watch,
            view=view,
            demo=demo,
            samples=samples or {},
            monitoring=monitoring,
        )
    )
    app.run()
    if app.left_running is not None:
        _say_what_goes_on(app.left_running.id)
    return app.return_code or 0


def _say_what_goes_on(name: str) -> None:
    """A line on standard output, where that is still there: not after a lost connection."""
    try:
        put(f"run {name} goes on: `llmprof attach {name}` shows it, `llmprof stop {name}` ends it")
    except OSError:
        drop_output()


def require_terminal() -> None:
    """Raise UserError, naming the command that needs none, where nothing can be drawn."""
    hint = "`llmprof run` measures without a screen"
    if os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        raise UserError(f"this terminal cannot draw a screen (TERM is dumb); {hint}", USAGE)
    # Textual reads standard input and draws on standard error.
    streams = (sys.__stdin__, sys.__stderr__)
    if not all(stream is not None and stream.isatty() for stream in streams):
        raise UserError(f"there is no terminal to draw a screen on; {hint}", USAGE)
