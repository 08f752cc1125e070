"""The Kernels view: where a profiled step's time went."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from llmprof.core.events.kernel_rows import StripInfo
from llmprof.core.figures.profile_wholes import mean_wall, twin
from llmprof.core.state.view import CaseState, RunView
from llmprof.tui.case_view import EARLIER, CaseView, why_unread
from llmprof.tui.kernels.bindings import KERNELS_BINDINGS
from llmprof.tui.kernels.class_bars import ClassBars
from llmprof.tui.kernels.detail import KernelDetail
from llmprof.tui.kernels.phase_tabs import PhaseTabs
from llmprof.tui.kernels.rows import (
    ALL,
    kernel_columns,
    kernel_table_rows,
    phase_names,
    profiled_cases,
)
from llmprof.tui.kernels.status import KernelStatus
from llmprof.tui.kernels.timeline_strip import TimelineStrip
from llmprof.tui.kit.filter import FilterInput
from llmprof.tui.kit.format import milliseconds_text
from llmprof.tui.kit.how_to import HowTo
from llmprof.tui.kit.snapshot import Snapshot
from llmprof.tui.kit.table import RowTable

if TYPE_CHECKING:
    from llmprof.core.kernels.timeline_strip import Strip

NO_PROFILE = "no kernel profile in this run"
WHAT = (
    "A profile follows every kernel of a few steps in a process of its own, beside the plain "
    "timing of the same steps: where the time of each phase goes, by kernel, class and module, "
    "and whether the GPU or the host sets the pace."
)
NO_TIMELINE = "what the device did and when the CPU launched it, over one step"
WantedStrip = tuple[Path, StripInfo]


class KernelsView(CaseView):
    """Its own state: case and phase in sight, order and filter, stretch of the timeline."""

    VIEW = PROBE = "kernels"
    MAKES = "profiling"
    DEFAULT_CSS = Path(__file__).with_name("view.tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = KERNELS_BINDINGS

    def __init__(self) -> None:
        super().__init__()
        self.phase = ALL
        self._shown: tuple[CaseState | None, str] | None = None
        self._wanted: WantedStrip | None = None
        self._strip: Strip | None = None
        self._problem = ""

    def compose_body(self) -> ComposeResult:
        """Verdict, tabs, table with classes, the kernel in full, the timeline."""
        with Vertical(id="kernels-body"):
            yield KernelStatus()
            yield PhaseTabs()
            with Horizontal(id="kernel-main"):
                yield RowTable("Kernels", "nothing ran in this phase", id="kernels-table")
                yield ClassBars()
            yield KernelDetail()
            yield TimelineStrip()
            yield HowTo("Kernels", WHAT, id="kernels-empty")
            yield FilterInput(id="kernel-filter")

    def cases_of(self, view: RunView) -> list[CaseState]:
        """Those that were profiled."""
        return profiled_cases(view)

    def take(self, snapshot: Snapshot) -> None:
        """Bring every panel up to date."""
        if self.gather(snapshot.view):
            self.phase = ALL
        if self.has_class("-empty") == bool(self._cases):
            self.set_class(not self._cases, "-empty")
            self.refresh_bindings()
            self.give_keys(self.query_one(RowTable))
        if not self._cases:
            self.show_how_to(snapshot, NO_PROFILE)
        if (self.state, self.phase) != self._shown:
            self.show_case()

    def show_case(self) -> None:
        """Show the case and phase in sight."""
        state = self.state
        table = state.kernels if state else None
        if table is not None and self.phase not in phase_names(table):
            self.phase = ALL
        self._shown = (state, self.phase)
        self.query_one(KernelStatus).show(
            state,
            mean_wall(twin(self.run_view, state)) if state else None,
            EARLIER if self.is_sample else "",
        )
        self.query_one(PhaseTabs).show(state, self.phase)
        self.query_one(ClassBars).show(state, self.phase)
        listing = self.query_one(RowTable)
        listing.title = "CPU ops" if table is not None and table.source == "cpu" else "Kernels"
        listing.note = self._walls(state) if state is not None else ""
        if state is None or table is None:
            listing.show((), ())
        else:
            listing.show(
                kernel_columns(table.source, self.phase), kernel_table_rows(state, self.phase)
            )
        self._show_detail()
        self._show_strip(state)
        self.refresh_bindings()

    def _walls(self, state: CaseState) -> str:
        """What the table is of: the wall time of the step with and without the profiler."""
        parts = state.timeline.parts if state.timeline is not None else ()
        profiled = milliseconds_text(parts[0].wall_ms if parts else None)
        plain = milliseconds_text(mean_wall(twin(self.run_view, state)))
        steps = state.kernels.steps if state.kernels is not None else 1
        mean = "" if steps == 1 else f" (mean of {steps})"
        return f"step {profiled} ms under the profiler{mean}, plain {plain} ms"

    def _show_detail(self) -> None:
        state, key = self.state, self.query_one(RowTable).current
        table = state.kernels if state else None
        rows = table.rows if table else ()
        row = rows[int(key)] if key is not None and int(key) < len(rows) else None
        on_card = table is None or table.source == "cuda"
        self.query_one(KernelDetail).show(row, on_card=on_card)

    def _show_strip(self, state: CaseState | None) -> None:
        run = self.run
        info = state.timeline.strip if state and state.timeline else None
        wanted = (run.artifacts, info) if run is not None and info is not None else None
        if wanted != self._wanted:
            self._wanted, self._strip, self._problem = wanted, None, ""
            if wanted is not None:
                self.run_worker(
                    partial(self._load, wanted), thread=True, group="strip", exit_on_error=False
                )
        note = self._problem or ("reading" if wanted else NO_TIMELINE)
        if self._strip is not None and info is not None:
            several = state is not None and state.kernels is not None and state.kernels.steps > 1
            note = f"step {info.step + 1}{', the median' if several else ''}"
        self.query_one(TimelineStrip).show(self._strip, info.wall_ms if info else 0.0, note)

    def _load(self, wanted: WantedStrip) -> None:
        """In a thread: numpy and the file take longer than a key may wait."""
        from llmprof.core.kernels.timeline_strip import open_strip

        strip, problem = None, ""
        try:
            strip = open_strip(*wanted)
        except (OSError, ValueError) as error:
            problem = f"no timeline: {why_unread(error)}"
        self.app.call_from_thread(self._loaded, wanted, strip, problem)

    def _loaded(self, wanted: WantedStrip, strip: Strip | None, problem: str) -> None:
        if wanted == self._wanted:
            self._strip, self._problem = strip, problem
            self._show_strip(self.state)
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what can be done now is offered."""
        if action == "list":
            return self.has_class("-narrow") and bool(self._cases)
        if action in ("zoom", "pan", "whole"):
            return self._strip is not None
        if action in ("phase", "filter"):
            return bool(self._cases)
        if action == "case":
            return len(self._cases) > 1
        return self.run is not None if action == "export" else True

    def on_row_table_moved(self, message: RowTable.Moved) -> None:
        """Show the kernel under the cursor in full."""
        self._show_detail()

    def on_row_table_selected(self, message: RowTable.Selected) -> None:
        """Show the row in full."""
        message.stop()
        self.show_row(message.table)

    def on_phase_tabs_chosen(self, message: PhaseTabs.Chosen) -> None:
        """Show the phase that was clicked."""
        self.phase = message.phase
        self.show_case()

    def on_input_changed(self, message: Input.Changed) -> None:
        """Filter while typing."""
        self.query_one(RowTable).set_filter(message.value)
        self._show_detail()

    def on_input_submitted(self) -> None:
        """Back to the table, filtered."""
        self.query_one(RowTable).focus()

    def action_phase(self, by: int) -> None:
        """Another phase."""
        state = self.state
        if state is not None and state.kernels is not None:
            names = phase_names(state.kernels)
            self.phase = names[(names.index(self.phase) + by) % len(names)]
            self.show_case()

    def action_list(self) -> None:
        """Swap kernels and classes."""
        self.toggle_class("-classes")

    def action_filter(self) -> None:
        """Show the filter."""
        self.add_class("-filter")
        self.query_one("#kernel-filter", Input).focus()

    def action_unfilter(self) -> None:
        """All kernels."""
        self.query_one("#kernel-filter", Input).value = ""
        self.remove_class("-filter")
        self.query_one(RowTable).focus()

    def action_zoom(self, closer: bool) -> None:
        """A shorter or longer stretch of the timeline."""
        self.query_one(TimelineStrip).zoom(closer)

    def action_pan(self, by: int) -> None:
        """Earlier or later times."""
        self.query_one(TimelineStrip).pan(by / 4)

    def action_whole(self) -> None:
        """The whole step."""
        self.query_one(TimelineStrip).whole()
