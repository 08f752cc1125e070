"""Everything that can be done now, as the command palette lists it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from textual.app import App, SystemCommand
from textual.screen import Screen

from llmprof.tui.help import active
from llmprof.tui.views import VIEWS

_AREAS = {**{tab.view: tab.label for tab in VIEWS}, "view": "Go to", "app": "llmprof"}
_HERE = "command_palette"  # the palette itself


def commands(app: App[Any], screen: Screen[Any]) -> Iterable[SystemCommand]:
    """The bindings of a screen and of the app, as "Area: What", each action once; the themes."""
    seen = {_HERE}
    for binding in active(screen.active_bindings):
        area = (binding.id or "").partition(".")[0]
        if area in _AREAS and binding.action not in seen:
            seen.add(binding.action)
            node = screen if area == screen.id else app
            yield SystemCommand(
                f"{_AREAS[area]}: {binding.description}",
                binding.tooltip or binding.description,
                partial(node.run_action, binding.action),
            )
    for name in app.available_themes:
        yield SystemCommand(f"Theme: {name}", "colours", partial(setattr, app, "theme", name))
