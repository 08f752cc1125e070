"""The first lines of the view: where the training is, and what is to be known of it."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.figures.loops import Straggler
from llmprof.core.lint.loops import LoopVerdict
from llmprof.core.report.loop_words import loop_line, part_words, seconds
from llmprof.core.state.loops import LoopState
from llmprof.core.state.view import RunView
from llmprof.core.system.numbers import significant
from llmprof.core.system.text import clean, duration
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, row_length
from llmprof.tui.kit.format import memory_text
from llmprof.tui.loop.parts_chart import LoopSight
from llmprof.tui.loop.ranks import QUIET_S

BAR = 24


class LoopStatus(Canvas):
    """Name and place in the training; below it a bar where the length is known, and notes."""

    DEFAULT_CSS = """
    LoopStatus { height: 2; }
    """

    def __init__(self) -> None:
        super().__init__(id="loop-status")
        self._sight: LoopSight | None = None
        self._view = RunView()
        self._alive = False
        self._slow: Straggler | None = None
        self._found: Sequence[LoopVerdict] = ()

    def show(
        self,
        sight: LoopSight | None,
        view: RunView,
        slow: Straggler | None,
        found: Sequence[LoopVerdict],
        *,
        alive: bool,
    ) -> None:
        """Take what is in sight."""
        self._sight, self._view, self._slow, self._alive = sight, view, slow, alive
        self._found = found
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Two rows."""
        if self._sight is None:
            said = "no training loop is watched: `llmprof watch -- python train.py` makes one"
            return [[(said, "muted")]]
        loop = self._sight.loop
        name = self.look.text(clean(loop.started.label, 30))
        rank = f" rank {loop.rank}" if len(self._view.loops) > 1 else ""
        now = self._sight.now_ns if self._alive else None
        line = self.look.text(loop_line(loop, now, self.look.dot))
        first: Row = [(f"{name}{rank}", "title"), (f" {self.look.dot} ", "muted"), (line, "text")]
        return [first, [*self._bar(loop), *self._notes(loop, width)]]

    def _bar(self, loop: LoopState) -> Row:
        total, step = loop.started.total_steps, loop.step
        if not total or step is None:
            return []
        full = min(BAR, round(BAR * (step + 1) / total))
        on, off = self.look.bar
        return [(on * full, "accent"), (off * (BAR - full), "rule"), ("  ", "")]

    def _notes(self, loop: LoopState, width: int) -> Row:
        """What is wrong first, then memory and our own cost."""
        row: Row = []
        now, dot = self._sight.now_ns if self._sight else None, f" {self.look.dot} "
        if not self._alive and loop.done is None and self._view.events:
            row.append(("the training process is gone: killed, or it crashed", "bad"))
        elif now is not None and loop.done is None and now - loop.last_t > QUIET_S * 1e9:
            row.append((f"no sign of life for {seconds((now - loop.last_t) / 1e9)}", "bad"))
        if self._slow is not None:
            part = part_words(self._slow.part, apart=loop.started.model)
            excess = significant(self._slow.excess_ms)
            more = f"rank {self._slow.rank} is {excess} ms a step slower in {part}"
            row += [*([(dot, "muted")] if row else []), (more, "warn")]
        for verdict in self._found:
            if verdict.rule != "straggler":  # which is said above
                row += [*([(dot, "muted")] if row else []), (verdict.rule, "warn")]
        for log in self._view.log[-1:]:
            if log.level != "info":
                row += [*([(dot, "muted")] if row else []), (clean(log.message, 80), "warn")]
        for text in self._figures(loop):
            if row_length(row) + len(text) + 3 < width:
                row += [*([(dot, "muted")] if row else []), (text, "muted")]
        return [(self.look.text(text), role) for text, role in row]

    def _figures(self, loop: LoopState) -> list[str]:
        beat = loop.beat
        end = loop.rows.end_ns
        found = [] if end is None else [f"trained {duration((end - loop.first_t) / 1e9)}"]
        if beat is None:
            return found
        if beat.allocated_bytes is not None:
            peak = memory_text(beat.peak_bytes)
            found.append(f"allocated {memory_text(beat.allocated_bytes)}, peak {peak}")
        if beat.updates_skipped:
            found.append(f"{beat.updates_skipped:,} updates skipped")
        if beat.dropped:
            found.append(f"{beat.dropped:,} steps not kept")
        return [*found, f"llmprof itself {beat.own_us:.0f} µs a step"]
