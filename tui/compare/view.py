"""The Compare view: two runs marked in Runs, what is different and what changed by phase."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical

from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run
from llmprof.core.system.text import cause, clean
from llmprof.tui.compare.bindings import COMPARE_BINDINGS
from llmprof.tui.compare.export import ComparisonExport
from llmprof.tui.compare.rows import columns_of, rows_of
from llmprof.tui.compare.said import ComparisonSaid
from llmprof.tui.host import HostedView
from llmprof.tui.kit.snapshot import Snapshot
from llmprof.tui.kit.table import RowTable

if TYPE_CHECKING:
    from llmprof.core.report.run_comparison import RunComparison

HOW = (
    "mark two runs in the Runs view (2) with the space bar: "
    "the first is what the other is compared with"
)
NOTHING_SHARED = "no case is in both runs; ] shows which each of them has alone"
READING = "reading both runs"
CHANGES = "changes"


class CompareView(HostedView):
    """Its own state: the comparison, which table is in sight, and whether it was forced."""

    VIEW = "compare"
    DEFAULT_CSS = Path(__file__).with_name("view.tcss").read_text("utf-8")
    BINDINGS: ClassVar[list[BindingType]] = COMPARE_BINDINGS

    def __init__(self) -> None:
        super().__init__()
        self.found: RunComparison | None = None
        self.forced = False
        self._asked: tuple[Run, ...] | None = None
        self._problem = ""
        self._key = CHANGES  # of the table in sight

    def compose_body(self) -> ComposeResult:
        """What may be said, and one table."""
        with Vertical(id="compare-body"):
            yield ComparisonSaid()
            yield RowTable("Compare", HOW, id="compare-table")

    def on_mount(self) -> None:
        """The table has the keys."""
        self.query_one(RowTable).focus()

    def take(self, snapshot: Snapshot) -> None:
        """Read the marked runs where they are others than before."""
        if self.host.session.marked != self._asked:
            self.action_again()

    @property
    def refused(self) -> tuple[str, ...]:
        """Why the two are not compared; empty where they are."""
        return () if self.found is None or self.forced else self.found.runs.obstacles

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what can be done now is offered."""
        if action == "force":
            return bool(self.refused)
        if action in ("table", "export"):
            return self.found is not None and not self.refused
        return len(self._asked or ()) == 2 if action in ("swap", "again") else True

    def action_again(self) -> None:
        """Read the marked runs, in a thread."""
        self._asked = self.host.session.marked
        self.found, self.forced, self._problem, self._key = None, False, "", CHANGES
        if len(self._asked) == 2:
            self.run_worker(
                partial(self._read, self._asked), thread=True, group="compare", exclusive=True
            )
        self.show_comparison()

    def action_swap(self) -> None:
        """The other way round."""
        self.host.session.swap_marked()
        self.action_again()

    def action_force(self) -> None:
        """Compare all the same."""
        self.forced = True
        self.show_comparison()

    def action_export(self) -> None:
        """Write what is shown, all of its tables."""
        if self.found is not None:
            self.host.export_of(ComparisonExport(self.found))

    def action_table(self, by: int) -> None:
        """Another table."""
        if self.found is not None:
            keys = [table.key for table in self.found.tables]
            at = keys.index(self._key) if self._key in keys else 0
            self._key = keys[(at + by) % len(keys)]
            self.show_comparison()

    def _read(self, marked: tuple[Run, ...]) -> None:
        """In a thread: reading two runs and judging them takes longer than a key may wait."""
        from llmprof.core.report.run_comparison import RunComparison
        from llmprof.core.report.two_runs import TwoRuns

        base, other = marked
        try:
            runs = TwoRuns(replay(base.journal), replay(other.journal))
        except OSError as error:
            gone = [run.label for run in marked if not run.path.is_dir()]
            problem = f"{' and '.join(gone)} was deleted" if gone else cause(error)
            self.app.call_from_thread(self._have_read, marked, None, problem)
            return
        found = RunComparison(runs, base.label, other.label)
        _ = found.tables, runs.obstacles  # worked out here and kept
        self.app.call_from_thread(self._have_read, marked, found, "")

    def _have_read(
        self, marked: tuple[Run, ...], found: RunComparison | None, problem: str
    ) -> None:
        if marked == self._asked:
            self.found, self._problem = found, problem
            self.show_comparison()

    def show_comparison(self) -> None:
        """Show what is known now."""
        listing = self.query_one(RowTable)
        listing.empty, listing.title, listing.note = self._empty(), "Compare", ""
        tables = () if self.found is None or self.refused else self.found.tables
        keys = [table.key for table in tables]
        if not tables:
            listing.show((), ())
        else:
            at = keys.index(self._key) if self._key in keys else 0
            listing.title, listing.note = tables[at].title, f"table {at + 1} of {len(tables)}"
            listing.show(columns_of(tables[at]), rows_of(tables[at]))
        self.query_one(ComparisonSaid).show(self._said())
        self.refresh_bindings()

    def on_row_table_moved(self, message: RowTable.Moved) -> None:
        """Say what may be said of the case under the cursor."""
        self.query_one(ComparisonSaid).show(self._said())

    def _empty(self) -> str:
        if self._problem:
            return f"not compared: {clean(self._problem, 200)}"
        if len(self._asked or ()) < 2:
            return HOW
        if self.found is None:
            return READING
        return "not compared" if self.refused else NOTHING_SHARED

    def _said(self) -> list[tuple[str, str]]:
        found = self.found
        if found is None:
            return [(f"{name}: {clean(run.label, 80)}", "title")
                    for name, run in zip("AB", self._asked or (), strict=False)]  # fmt: skip
        names = f"A {clean(found.base_name, 60)}   B {clean(found.other_name, 60)}"
        lines = [(names, "title")]
        if self.refused:
            why = "; ".join(self.refused)
            return [*lines, (f"not compared: {why}; F compares them anyway", "warn")]
        lines += [(f"forced: {why}", "warn") for why in found.runs.obstacles]
        apart = [f"{each.what} {each.base} → {each.other}" for each in found.runs.differences]
        different = (
            f"different: {'; '.join(apart)}"
            if apart
            else "same device and software, as far as is known"
        )
        lines.append((different, "muted"))
        return [*lines, *self._said_of_case(found)]

    def _said_of_case(self, found: RunComparison) -> list[tuple[str, str]]:
        """What may be said of the case under the cursor; of the runs, where there is none."""
        key, rows = self.query_one(RowTable).current, found.rows_of_changes
        if self._key != CHANGES or key is None or int(key) >= len(rows):
            return [(line, "text") for line in found.sentences]
        case = rows[int(key)]
        if case.not_judged:
            return [(case.not_judged, "warn")]
        said = found.said_of(case) or [f"{case.base.case.label}: no difference beyond the noise"]
        return [(clean(line), "text") for line in said]
