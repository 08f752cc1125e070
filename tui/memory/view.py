"""The Memory view: what a recorded step holds, when, and where it was taken."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical

from llmprof.core.events import MemoryTimeline
from llmprof.core.state.view import CaseState, RunView
from llmprof.tui.case_view import EARLIER, CaseView, why_unread
from llmprof.tui.chart.scale import scale_for
from llmprof.tui.kit.how_to import HowTo
from llmprof.tui.kit.snapshot import Snapshot
from llmprof.tui.kit.table import RowTable
from llmprof.tui.memory.bindings import MEMORY_BINDINGS
from llmprof.tui.memory.chart import MemoryChart
from llmprof.tui.memory.cursor import AtCursor
from llmprof.tui.memory.detail import AllocationDetail
from llmprof.tui.memory.phases import MemoryPhases
from llmprof.tui.memory.rows import live_columns, live_rows
from llmprof.tui.memory.stack import MemoryStack
from llmprof.tui.memory.status import MemoryStatus, shown_prediction
from llmprof.tui.memory.track import Track, read_track

HIGH, LEAST_BOTTOM = 28, 10  # lines of the body with a chart of a good size; of its lower part
NO_RECORDING = "no recorded memory in this run"
WHAT = (
    "A recording follows every allocation of two steps in a process of its own: the level over "
    "time by category, the level after each phase, and the lines of code that hold most at the "
    "peak."
)
WantedTrack = tuple[Path, str, int]


class MemoryView(CaseView):
    """Its own state: case in sight, axis, and which pane is shown where there is room for one."""

    VIEW = PROBE = "memory"
    MAKES = "recording"
    DEFAULT_CSS = Path(__file__).with_name("view.tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = MEMORY_BINDINGS

    def __init__(self) -> None:
        super().__init__()
        self.by_time = True
        self._shown: CaseState | None = None
        self._wanted: WantedTrack | None = None
        self._track: Track | None = None
        self._problem = ""

    def compose_body(self) -> ComposeResult:
        """Figures, chart with cursor, allocations and phases; or how to get them."""
        with Vertical(id="memory-body"):
            yield MemoryStatus()
            with Horizontal(id="memory-main"):
                yield MemoryChart()
                yield AtCursor()
            yield MemoryStack()
            with Horizontal(id="memory-bottom"):
                with Vertical(id="memory-lists"):
                    yield RowTable("Live at the peak", "nothing was live", id="memory-live")
                    yield AllocationDetail()
                yield MemoryPhases()
            yield HowTo("Memory", WHAT, id="memory-empty")

    @property
    def event(self) -> MemoryTimeline | None:
        """The recording in sight."""
        return self.state.memory_timeline if self.state is not None else None

    def cases_of(self, view: RunView) -> list[CaseState]:
        """Those that were recorded."""
        return recorded_cases(view)

    def take(self, snapshot: Snapshot) -> None:
        """Bring every panel up to date."""
        self.gather(snapshot.view)
        if self.has_class("-empty") == bool(self._cases):
            self.set_class(not self._cases, "-empty")
            self.refresh_bindings()  # what can be done has changed
            self.give_keys(self.query_one(RowTable))
        if not self._cases:
            self._shown = None
            self.show_how_to(snapshot, NO_RECORDING)
        elif self.state != self._shown:
            self.show_case()

    def show_case(self) -> None:
        """Show the case in sight."""
        state, event = self.state, self.event
        self._shown = state
        if state is None or event is None:
            return
        said = shown_prediction(state)
        at = self._cases.index(state) + 1
        place = f"recorded case {at} of {len(self._cases)}" if len(self._cases) > 1 else ""
        before = EARLIER if self.is_sample else ""
        self.query_one(MemoryStatus).show(state, said, (before, place))
        self.query_one(MemoryPhases).show(event, said)
        listing = self.query_one(RowTable)
        listing.show(live_columns(scale_for("B", event.peak_bytes).unit), live_rows(event))
        self._make_room()
        self._show_detail()
        self._fetch(event)

    def _make_room(self) -> None:
        """In a high window rows of both tables come before the timeline is drawn larger."""
        event = self.event
        spare = self.query_one("#memory-body").size.height - HIGH
        rows = 0 if event is None else max(len(event.largest) + 5, len(event.phases) + 3)
        wanted = min(LEAST_BOTTOM + spare, max(LEAST_BOTTOM, rows)) if spare > 0 else None
        self.query_one("#memory-bottom").styles.height = wanted

    def on_resize(self) -> None:
        """Another size, other room."""
        self.call_after_refresh(self._make_room)

    def _fetch(self, event: MemoryTimeline) -> None:
        run = self.run
        wanted, problem = None, next(iter(event.missing), "")
        if run is not None and event.artifact is not None:
            wanted, problem = (run.path, event.artifact, event.t), "reading"
        if wanted != self._wanted or wanted is None:
            self._wanted, self._track, self._problem = wanted, None, problem
            if wanted is not None:
                self.run_worker(
                    partial(self._load, wanted), thread=True, group="track", exit_on_error=False
                )
        self._show_track()

    def _load(self, wanted: WantedTrack) -> None:
        """In a thread: the file may be large."""
        track, problem = None, ""
        try:
            track = read_track(*wanted[:2])
        except (OSError, ValueError, EOFError) as error:
            problem = f"no timeline: {why_unread(error)}"
        self.app.call_from_thread(self._loaded, wanted, track, problem)

    def _loaded(self, wanted: WantedTrack, track: Track | None, problem: str) -> None:
        if wanted == self._wanted:
            self._track, self._problem = track, problem
            self._show_track()

    def _show_track(self) -> None:
        event, note = self.event, self._problem
        if event is not None and self._track is not None:
            steps = "1 step" if event.steps == 1 else f"{event.steps} steps"
            along = "time" if self.by_time else f"{event.entries:,} changes"
            note = f"{steps} by {along}, {event.source}"
        self.query_one(MemoryChart).show(self._track, note)

    def _show_detail(self) -> None:
        event, key = self.event, self.query_one(RowTable).current
        live = event.largest if event is not None else ()
        found = live[int(key)] if key is not None and int(key) < len(live) else None
        self.query_one(AllocationDetail).show(found)
        self.query_one(MemoryStack).show(found)

    def on_memory_chart_moved(self, message: MemoryChart.Moved) -> None:
        """Name what is live under the cursor."""
        moment = message.moment
        self.query_one(AtCursor).show(self.event, moment)
        span = moment.span if moment is not None else None
        self.query_one(MemoryPhases).mark((span.step, span.phase) if span else None)

    def on_row_table_moved(self, message: RowTable.Moved) -> None:
        """Show the allocation under the cursor in full."""
        self._show_detail()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what can be done now is offered."""
        if action == "list" and not self.has_class("-narrow"):
            return False
        if action in ("cursor", "phase", "peak", "zoom", "whole", "axis", "list", "stack"):
            return not self.has_class("-empty")
        if action == "case":
            return len(self._cases) > 1
        return self.run is not None if action == "export" else True

    def action_cursor(self, by: int) -> None:
        """Move the cursor, or along the stack."""
        if self.has_class("-stack"):
            self.query_one(MemoryStack).scroll_frames(by)
        else:
            self.query_one(MemoryChart).move(by)

    def action_phase(self, by: int) -> None:
        """Another phase."""
        self.query_one(MemoryChart).to_phase(by)

    def action_peak(self) -> None:
        """Back to the peak."""
        if self._track is not None:
            self.query_one(MemoryChart).put(self._track.peak_x)

    def action_zoom(self, closer: bool) -> None:
        """A shorter or longer stretch."""
        self.query_one(MemoryChart).zoom(closer)

    def action_whole(self) -> None:
        """All recorded steps."""
        self.query_one(MemoryChart).whole()

    def action_axis(self) -> None:
        """By time, or change by change: short phases get room."""
        self.by_time = not self.by_time
        if self._track is not None:
            self._track = Track(self._track.points, self.by_time)
            self._show_track()

    def action_list(self) -> None:
        """Swap allocations and phases."""
        self.toggle_class("-phases")

    def action_stack(self) -> None:
        """Swap timeline and stack."""
        self.toggle_class("-stack")

    def on_row_table_selected(self, message: RowTable.Selected) -> None:
        """Show the stack of the allocation under the cursor."""
        message.stop()
        self.action_stack()


def recorded_cases(view: RunView) -> list[CaseState]:
    """The cases of a run that have a recorded timeline."""
    return [state for state in view.cases if state.memory_timeline is not None]
