"""The first lines of the view: where the training is, and what is to be known of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llmprof.core.figures.loops import Straggler, failures
from llmprof.core.figures.part_words import part_words
from llmprof.core.lint.loop_verdict import LoopVerdict
from llmprof.core.report.loop_words import loop_line
from llmprof.core.state.loops import LoopState
from llmprof.core.state.view import RunView
from llmprof.core.system.numbers import significant
from llmprof.core.system.text import clean, clock
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, row_length
from llmprof.tui.kit.format import memory_text
from llmprof.tui.loop.parts_chart import LoopSight
from llmprof.tui.loop.silences import Silence, silence_words

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
        self._beside = ""
        self._silent: Sequence[Silence] = ()

    def show(
        self,
        sight: LoopSight | None,
        view: RunView,
        slow: Straggler | None,
        found: Sequence[LoopVerdict],
        *,
        alive: bool,
        beside: str,
        silent: Sequence[Silence],
    ) -> None:
        """Take what is in sight; beside is the name of a run that goes on and is not watched."""
        self._sight, self._view, self._slow, self._alive = sight, view, slow, alive
        self._found, self._beside, self._silent = found, beside, silent
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Two rows."""
        if self._sight is None:
            return self._nothing()
        loop = self._sight.loop
        name = self.look.text(clean(loop.started.label, 30))
        rank = f" rank {loop.rank}" if len(self._view.loops) > 1 else ""
        now = self._sight.now_ns if self._alive else None
        line = self.look.text(loop_line(loop, now, self.look.dot, error=False))  # it is below
        first: Row = [(f"{name}{rank}", "title"), (f" {self.look.dot} ", "muted"), (line, "text")]
        return [first, [*self._bar(loop), *self._notes(loop, width)]]

    def _nothing(self) -> list[Row]:
        """What to do where no loop is watched."""
        if self._beside:
            return [self._going()]
        how = "no training loop is watched: `llmprof watch -- python train.py` makes one"
        return [[(how, "muted")], [("the next one that begins is shown here", "muted")]]

    def _going(self) -> Row:
        """What goes on beside, and the key for it."""
        name = self.look.text(clean(self._beside, 30))
        return [(name, "title"), (" goes on: ", "text"), ("w", "key"), (" shows it", "text")]

    def _bar(self, loop: LoopState) -> Row:
        total, step = loop.started.total_steps, loop.step
        broke = loop.done is not None and loop.done.error  # which needs the room
        if not total or step is None or broke:
            return []
        full = min(BAR, round(BAR * (step + 1) / total))
        on, off = self.look.bar
        return [(on * full, "accent"), (off * (BAR - full), "rule"), ("  ", "")]

    def _notes(self, loop: LoopState, width: int) -> Row:
        """What is wrong first, then memory and our own cost."""
        notes: list[Row] = [[(text, "bad")] for text in self._end(loop)]
        if self._beside and not self._alive:
            notes.append(self._going())
        notes += [[(self.look.text(text), "warn")] for text in self._warnings(loop)]
        row = self._joined(notes)
        for text in self._figures(loop):
            longer = self._joined([*([row] if row else []), [(self.look.text(text), "muted")]])
            row = longer if row_length(longer) < width else row
        return row

    def _joined(self, notes: Sequence[Row]) -> Row:
        """Notes in a row, a dot between two of them."""
        between = (f" {self.look.dot} ", "muted")
        return [part for at, note in enumerate(notes) for part in ([between] * bool(at) + note)]

    def _end(self, loop: LoopState) -> Iterable[str]:
        """Why nothing more comes of it, or has not come for a while."""
        if said := silence_words(self._silent, len(self._view.loops)):
            yield said
        failed = failures(self._view.loops)
        if failed and failed[0].rank != loop.rank and failed[0].done is not None:
            first = " first" if len(failed) > 1 else ""
            yield self.look.text(f"rank {failed[0].rank} failed{first}: {failed[0].done.error}")
        elif loop.done is not None and loop.done.error:
            yield self.look.text(loop.done.error)

    def _warnings(self, loop: LoopState) -> Iterable[str]:
        """What makes it slow, and what llmprof has to say of itself."""
        if self._slow is not None:
            part = part_words(self._slow.part, apart=loop.started.model)
            excess = significant(self._slow.excess_ms)
            yield f"rank {self._slow.rank} is {excess} ms a step slower in {part}"
        yield from (each.rule for each in self._found if each.rule != "straggler")  # said above
        yield from (clean(log.message, 80) for log in self._view.log[-1:] if log.level != "info")

    def _figures(self, loop: LoopState) -> list[str]:
        beat = loop.beat
        end = loop.rows.end_ns
        found = [] if end is None else [f"trained {clock((end - loop.first_t) / 1e9)}"]
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
