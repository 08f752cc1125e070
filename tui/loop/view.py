"""The Loop view: someone's own training, live or as it was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from llmprof.core.figures.loops import straggler
from llmprof.core.lint.loop_verdict import LoopVerdict
from llmprof.core.lint.loops import loop_verdicts
from llmprof.core.state.loops import LoopState
from llmprof.core.state.view import RunView
from llmprof.tui.host import HostedView
from llmprof.tui.kit.snapshot import Snapshot
from llmprof.tui.kit.table import RowTable
from llmprof.tui.loop.bindings import LOOP_BINDINGS
from llmprof.tui.loop.curves import LoopDevice, LoopValues
from llmprof.tui.loop.parts_chart import LoopSight, PartsChart
from llmprof.tui.loop.ranks import RANK_COLUMNS, rank_rows
from llmprof.tui.loop.silences import Silence, silences
from llmprof.tui.loop.status import LoopStatus
from llmprof.tui.loop.window import shown_ns

if TYPE_CHECKING:
    from llmprof.core.store.run import Run

LOOP_WINDOWS_S = (300.0, 1800.0, 0.0, 60.0)  # seconds; 0: all of it
SECOND_NS = 10**9
JUDGED_NS = 5 * SECOND_NS  # how often it is judged: every row is looked at


class LoopView(HostedView):
    """Its own state: the rank in sight, the time that is shown, which value is drawn."""

    VIEW = "loop"
    DEFAULT_CSS = Path(__file__).with_name("view.tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = LOOP_BINDINGS

    def __init__(self) -> None:
        super().__init__()
        self.zoom = 0
        self.rank: int | None = None  # in sight; None: the first
        self._shown = RunView()
        self._judged: tuple[object, ...] = ()
        self._found: tuple[LoopVerdict, ...] = ()
        self._beside: Run | None = None  # of which the keys know

    def compose_body(self) -> ComposeResult:
        """Status, parts, curves, ranks."""
        with Vertical(id="loop-body"):
            yield LoopStatus()
            yield PartsChart()
            with Horizontal(id="loop-curves"):
                yield LoopDevice()
                yield LoopValues()
            yield RowTable("Ranks", "no rank has begun", id="loop-ranks")

    def on_mount(self) -> None:
        """A second's clock: how long a part lasts is shown although nothing comes."""
        super().on_mount()
        self.set_interval(0.5, self._tick)

    def take(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self._shown = snapshot.view
        if self._beside != self.host.session.beside:
            self._beside = self.host.session.beside
            self.refresh_bindings()
        self.show_loop()

    def show_loop(self) -> None:
        """Bring every panel up to date."""
        view, loop = self._shown, self._loop
        self.set_class(len(view.loops) > 1, "-many")
        now = self.host.session.now_ns()
        sight = None
        if loop is not None:
            end = max(loop.rows.end_ns or 0, loop.last_t, now or 0)
            length = shown_ns(LOOP_WINDOWS_S[self.zoom], max(SECOND_NS, end - loop.first_t))
            sight = LoopSight(loop, length, end, now)
        slow = straggler(view.loops)
        silent = self._silent(now)
        status = self.query_one(LoopStatus)
        beside = self._beside
        status.show(sight, view, slow, self._findings(view), alive=self.host.session.alive,
                    beside="" if beside is None else beside.label,
                    silent=silent)  # fmt: skip
        self.query_one(PartsChart).show(sight)
        self.query_one(LoopDevice).show(sight, view)
        self.query_one(LoopValues).show(sight)
        if len(view.loops) > 1:
            table = self.query_one(RowTable)
            table.show(RANK_COLUMNS, rank_rows(view.loops, slow, now, silent))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Another training is offered where one goes on."""
        return self.host.session.beside is not None if action == "watch" else True

    def on_row_table_moved(self, message: RowTable.Moved) -> None:
        """Look at the rank under the cursor."""
        self.rank = int(message.key)
        self.show_loop()

    def action_zoom(self) -> None:
        """Another stretch of time."""
        self.zoom = (self.zoom + 1) % len(LOOP_WINDOWS_S)
        self.show_loop()

    def action_pause(self) -> None:
        """Hold the picture, or go on with the newest."""
        self.host.toggle_pause()

    def action_value(self, by: int) -> None:
        """Another logged value, the next or the one before."""
        self.query_one(LoopValues).chosen += by
        self.show_loop()

    def action_watch(self) -> None:
        """Watch what goes on beside."""
        if (beside := self.host.session.beside) is not None:
            self.host.open_run(beside)

    def action_export(self) -> None:
        """Write the watched run's tables."""
        self.host.export(self.host.session.run)

    def _silent(self, now_ns: int | None) -> list[Silence]:
        """The ranks that are not heard; none while that is not known."""
        session = self.host.session
        if session.loading or (session.alive and now_ns is None):  # it goes on by another clock
            return []
        return silences(self._shown.loops, session.run, now_ns if session.alive else None)

    def _findings(self, view: RunView) -> tuple[LoopVerdict, ...]:
        """What holds the training up, as of a few seconds ago."""
        over = all(loop.done is not None for loop in view.loops)
        judged = view.run_id, len(view.loops), view.last_t // JUDGED_NS, over
        if judged != self._judged:
            self._judged, self._found = judged, loop_verdicts(view)
        return self._found

    @property
    def _loop(self) -> LoopState | None:
        loops = self._shown.loops
        return next((loop for loop in loops if loop.rank == self.rank), loops[0] if loops else None)

    def _tick(self) -> None:
        if self.is_current and self._shown.loops and not self.host.session.paused:
            self.show_loop()
