"""Every key of the view in sight and of the app, with what it does."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.geometry import Size
from textual.widgets import Static

from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading
from llmprof.tui.kit.dialog import Dialog
from llmprof.tui.views import VIEWS

KEY_WIDTH = 16
_NAMES = {"slash": "/", "question_mark": "?", "escape": "esc", "pageup": "page up",
          "pagedown": "page down", "left_square_bracket": "[", "right_square_bracket": "]",
          "plus": "+", "equals_sign": "=", "minus": "-"}  # fmt: skip
_AREA_NAMES = {**{tab.view: tab.label for tab in VIEWS}, "ticks": "Lists to tick",
          "chips": "Options", "picker": "Experiment and card", "field": "Fields",
          "table": "Tables", "steps": "Step log", "dialog": "Dialogs",
          "view": "Views", "app": "Everywhere"}  # fmt: skip
_AREA_ORDER = list(_AREA_NAMES)  # the view's own keys before those of what has the focus


class HelpText(Canvas):
    """Keys and tooltips by area."""

    DEFAULT_CSS = """
    HelpText { height: auto; }
    """

    def __init__(self, bindings: Sequence[Binding]) -> None:
        super().__init__()
        self._areas = by_area(bindings)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """A line a key or more, two an area."""
        return len(self.draw(width, 0))

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Areas one below the other, what a key does in as many lines as it takes."""
        rows: list[Row] = []
        for area, keys in self._areas.items():
            rows.append(heading(self.look, width, _AREA_NAMES.get(area, area)))
            for key, text in keys.items():
                name = self.look.text(key)
                for line in textwrap.wrap(self.look.text(text), max(10, width - KEY_WIDTH)):
                    rows.append([(f"  {name}".ljust(KEY_WIDTH), "key"), (line, "text")])
                    name = ""
            rows.append([])
        return rows


class HelpDialog(Dialog[str]):
    """The list, scrolled with the arrow keys."""

    DEFAULT_CSS = """
    HelpDialog #help-scroll { height: 1fr; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1,q", "cancel", "Close", show=False, id="help.close",
                tooltip="close the list"),
    ]  # fmt: skip

    def __init__(self, bindings: Sequence[Binding]) -> None:
        super().__init__()
        self._listed = bindings

    def compose(self) -> ComposeResult:
        """Title and list."""
        with Vertical(classes="box wide"):
            yield Static("Keys", markup=False, classes="dialog-title")
            with VerticalScroll(id="help-scroll"):
                yield HelpText(self._listed)
            yield Static("^p lists all commands, ? or esc closes", markup=False,
                         classes="dialog-note")  # fmt: skip

    def on_mount(self) -> None:
        """The list scrolls."""
        self.query_one("#help-scroll").focus()


def by_area(bindings: Iterable[Binding]) -> dict[str, dict[str, str]]:
    """Keys with their tooltips, grouped by the first part of the binding's id, in _ORDER."""
    out: dict[str, dict[str, str]] = {}
    for binding in bindings:
        if not binding.id:
            continue
        keys = out.setdefault(binding.id.partition(".")[0], {})
        names = [_NAMES.get(key, key).replace("ctrl+", "^") for key in binding.key.split(",")]
        keys[" ".join(names)] = binding.tooltip or binding.description
    return dict(sorted(out.items(), key=lambda area: _place(area[0])))


def _place(area: str) -> int:
    return _AREA_ORDER.index(area) if area in _AREA_ORDER else _AREA_ORDER.index("view")


def active(bindings: dict[str, ActiveBinding]) -> list[Binding]:
    """The bindings that can be pressed now, one an id, keys joined."""
    joined: dict[str, Binding] = {}
    for _, binding, _, _ in bindings.values():
        if binding.id and binding.id in joined:
            keys = f"{joined[binding.id].key},{binding.key}"
            joined[binding.id] = Binding(keys, binding.action, binding.description,
                                         tooltip=binding.tooltip, id=binding.id)  # fmt: skip
        elif binding.id:
            joined[binding.id] = binding
    return list(joined.values())
