"""The app as the kit knows it: what views are made of asks no more of it than this."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from llmprof.tui.chart.cells import Row
    from llmprof.tui.kit.look import Look
    from llmprof.tui.kit.roles import Palette
    from llmprof.tui.kit.snapshot import Snapshot


class Tab(msgspec.Struct, frozen=True):
    """A view in the header: its mode, its name, the key that shows it."""

    view: str
    label: str
    key: str


class KitHost(Protocol):
    """What the app lends to every view, dialog and canvas."""

    @property
    def look(self) -> Look:
        """The glyphs in use."""

    @property
    def palette(self) -> Palette:
        """The styles of roles in the theme in use."""

    @property
    def tabs(self) -> Sequence[Tab]:
        """All views, in order."""

    @property
    def frame_stands(self) -> bool:
        """Whether the first frame has been drawn."""

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot of the watched run, the held one while paused."""

    def header_status(self) -> Row:
        """What the header's right end says."""
