"""The views, in the order of their tabs: a further view is a room beside this file and a line here.

A view's module is imported when the view is first shown, which keeps the first frame quick.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from llmprof.tui.kit.view import View


@dataclass(frozen=True)
class Entry:
    """A view's mode name, tab, key, and class in the module of the mode's name."""

    VIEW: str
    LABEL: str
    KEY: str
    class_name: str

    def load(self) -> type[View]:
        """The view's class."""
        module = importlib.import_module(f"llmprof.tui.{self.VIEW}.view")
        return cast("type[View]", getattr(module, self.class_name))

    def __call__(self) -> View:
        """A new view; Textual asks once."""
        return self.load()()


VIEWS = (
    Entry("bench", "Bench", "1", "BenchView"),
    Entry("runs", "Runs", "2", "RunsView"),
    Entry("kernels", "Kernels", "3", "KernelsView"),
    Entry("memory", "Memory", "4", "MemoryView"),
    Entry("monitor", "Monitor", "m", "MonitorView"),
)
