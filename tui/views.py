"""The views, in the order of their tabs: a further view is a file in screens/ and a line here."""

from __future__ import annotations

from llmprof.tui.screens.bench import BenchView
from llmprof.tui.screens.kernels import KernelsView
from llmprof.tui.screens.monitor import MonitorView
from llmprof.tui.screens.runs import RunsView
from llmprof.tui.screens.view import View

VIEWS: tuple[type[View], ...] = (BenchView, RunsView, KernelsView, MonitorView)
