"""Base of all dialogs: a box over a dimmed view, left with escape."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

if TYPE_CHECKING:
    from llmprof.tui.app import LlmprofApp

Result = TypeVar("Result")


class Dialog(ModalScreen[Result | None]):
    """A modal screen whose first child is the box; None means that nothing was decided."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="dialog.cancel", tooltip="close the dialog"),
    ]

    @property
    def llmprof(self) -> LlmprofApp:
        """The app, by its own type."""
        return cast("LlmprofApp", self.app)

    def action_cancel(self) -> None:
        """Decide nothing."""
        self.dismiss(None)
