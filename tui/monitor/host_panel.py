"""The host: one line of figures, and its curves where there is no card."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from llmprof.core.monitor import amounts, words
from llmprof.core.state.view import RunView
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading, row_length
from llmprof.tui.monitor.card_panel import Window, percent_line, percent_rows

SECOND_NS = 1_000_000_000  # over which the CPU's share is averaged


class HostLine(Canvas):
    """CPU, memory, load; what the sampler itself costs; paused or not."""

    DEFAULT_CSS = """
    HostLine { height: 1; }
    """

    def __init__(self) -> None:
        super().__init__(id="host-line")
        self._view: RunView | None = None
        self._note: Row = []

    def show(self, view: RunView | None, note: Row) -> None:
        """Take a view, and what stands before all."""
        self._view, self._note = view, note
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """One row; a figure that does not fit is left out with its label, at the right."""
        view = self._view
        sample = None if view is None else view.last_sample
        if view is None or sample is None:
            return [[*self._note, ("starting the sampler", "muted")]]
        host, shares = sample.host, view.host_cpu.between(sample.t - SECOND_NS, sample.t + 1)
        cpu = amounts.text(sum(shares) / len(shares) if shares else None, "%")
        memory = words.host_memory(host)
        load = "" if host.load1 is None else f"{host.load1:.2f}"
        cost = "" if sample.cost_ms is None else amounts.text(sample.cost_ms, "ms")
        row: Row = [*self._note, ("Host ", "title")]
        for label, value in (("CPU", cpu), ("memory", memory), ("load", load),
                             ("reading", cost)):  # fmt: skip
            part: Row = [(f" {label} ", "muted"), (self.look.text(value), "text")]
            if not value or row_length([*row, *part]) > width:
                continue
            row += [*part, (" ", "")]
        return [row]


class HostChart(Canvas):
    """CPU and memory in percent, below the reason why there is no card."""

    DEFAULT_CSS = """
    HostChart { height: 1fr; min-height: 6; }
    """

    def __init__(self) -> None:
        super().__init__(id="host-chart")
        self._view: RunView | None = None
        self._window_s = 60.0

    def show(self, view: RunView | None, window_s: float) -> None:
        """Take a view and the time to show."""
        self._view, self._window_s = view, window_s
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """What is missing and how to get it; then the curves."""
        view, look = self._view, self.look
        sample = None if view is None else view.last_sample
        if view is None or sample is None:
            return [heading(look, width, "GPU", "waiting for the first sample")]
        reason = clean(sample.cards_reason or "no card was read", 600)
        said = textwrap.wrap(look.text(reason), max(10, width))
        rows: list[Row] = [heading(look, width, "GPU", "none")]
        rows += [[(line, "warn")] for line in said]
        rows += [[], heading(look, width, "Host", "%")]
        window = Window.up_to(sample.t, self._window_s)
        total = sample.host.memory_total_bytes
        lines = [percent_line("utilization", "CPU", view.host_cpu, 100.0, window)]
        if total:
            memory = percent_line("memory", "memory", view.host_memory, total, window)
            lines.insert(0, memory)
        room = (width, height - len(rows))
        return [*rows, *percent_rows(self, lines, self._window_s, room)]
