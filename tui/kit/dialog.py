"""Base of all dialogs: a box over a dimmed view, left with escape."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

if TYPE_CHECKING:
    from llmprof.tui.kit.host import KitHost

Result = TypeVar("Result")


class Dialog(ModalScreen[Result | None]):
    """A modal screen whose first child is the box; None means that nothing was decided."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", id="dialog.cancel", tooltip="close the dialog"),
    ]

    @property
    def host(self) -> KitHost:
        """The app, as far as dialogs need it."""
        return cast("KitHost", self.app)

    def action_cancel(self) -> None:
        """Decide nothing."""
        self.dismiss(None)
