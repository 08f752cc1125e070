"""The views, in the order of their tabs: a further view is a room beside this file and a line here.

A view's module is imported when the view is first shown, which keeps the first frame quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from llmprof.tui.kit.host import Tab

if TYPE_CHECKING:
    from llmprof.tui.kit.view import View


class ViewEntry(Tab, frozen=True):
    """A view's tab, and its class in the room of the tab's name."""

    class_name: str

    def load(self) -> type[View]:
        """The view's class."""
        module = importlib.import_module(f"llmprof.tui.{self.view}.view")
        return cast("type[View]", getattr(module, self.class_name))

    def __call__(self) -> View:
        """A new view; Textual asks once."""
        return self.load()()


VIEWS = (
    ViewEntry("bench", "Bench", "1", "BenchView"),
    ViewEntry("runs", "Runs", "2", "RunsView"),
    ViewEntry("kernels", "Kernels", "3", "KernelsView"),
    ViewEntry("memory", "Memory", "4", "MemoryView"),
    ViewEntry("compare", "Compare", "5", "CompareView"),
    ViewEntry("loop", "Loop", "6", "LoopView"),
    ViewEntry("monitor", "Monitor", "7", "MonitorView"),
)
