"""Everything that can be done now, as the command palette lists it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from textual.app import App, SystemCommand
from textual.screen import Screen

from llmprof.tui.help import active
from llmprof.tui.views import VIEWS

_AREAS = frozenset({tab.view for tab in VIEWS} | {"app", "view"})


def commands(app: App[Any], screen: Screen[Any]) -> Iterable[SystemCommand]:
    """The bindings of a screen and of the app, as "area: verb", then the themes."""
    for binding in active(screen.active_bindings):
        area, _, verb = (binding.id or "").partition(".")
        if area in _AREAS:
            node = screen if area == screen.id else app
            yield SystemCommand(
                f"{area}: {verb.replace('_', ' ')}",
                binding.tooltip or binding.description,
                partial(node.run_action, binding.action),
            )
    for name in app.available_themes:
        yield SystemCommand(f"theme: {name}", "colours", partial(setattr, app, "theme", name))
