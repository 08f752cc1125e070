"""The line in which the text is typed that a view's table is filtered by."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from llmprof.tui.kit.field import FormInput


class FilterInput(FormInput):
    """Hidden until its view has the class -filter; escape shows all rows again, at once."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.unfilter", "Clear filter", id="filter.clear",
                tooltip="show all rows again"),
    ]  # fmt: skip

    SCOPED_CSS = False  # its view's class decides
    DEFAULT_CSS = """
    FilterInput { display: none; }
    .-filter FilterInput { display: block; }
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(placeholder="filter", compact=True, max_length=60, id=id)
        self.cursor_blink = False
