"""The results table: one row a case, from pending to its verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rich.cells import cell_len

from llmprof.core.events import Outcome
from llmprof.core.figures.memory_peaks import kind_of, peaks_of
from llmprof.core.report.subject import final
from llmprof.core.spec.axes import GRID, Axis
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.summary import stability
from llmprof.core.system.text import clean
from llmprof.tui.kit.format import (
    interval_text,
    mean_interval,
    memory_text,
    number_text,
    percent_text,
    sparkline,
)
from llmprof.tui.kit.look import Look
from llmprof.tui.kit.table_cells import TableCell, TableColumn, TableRow
from llmprof.tui.session.curves import CaseCurves, total_of

SPARK = 8
MOST_NAME = 120  # of a model: long ones differ at their ends


def _read(axis: Axis, case: Case) -> str:
    return str(axis.shown(axis.of(case)))


@dataclass(frozen=True)
class CaseColumn:
    """On what cases may differ: a heading, and how a case reads there."""

    title: str
    read: Callable[[Case], str]


_MEASURED_BY = CaseColumn("Measured", lambda case: case.probe)
_PROCESS = CaseColumn("Process", lambda case: str(case.process + 1))
CASE_COLUMNS: tuple[CaseColumn, ...] = (  # a kernel profile stands beside its plain timing
    _MEASURED_BY,
    *(CaseColumn(axis.label, partial(_read, axis)) for axis in GRID),
    _PROCESS,
)
_PEAK_TITLES = {"allocated": "Peak", "requested": "Requested", "resident": "Peak RSS"}
_STATUS_ROLES = {
    "ok": "good", "running": "accent", "pending": "muted", "oom": "bad", "error": "bad",
    "killed": "bad", "stopped": "warn", "timeout": "bad", "unsupported": "warn", "skipped": "warn",
}  # fmt: skip


@dataclass
class ResultRows:
    """Builds the table; rows of cases that did not change are taken over from before."""

    look: Look
    known: dict[int, tuple[CaseState, bool, Outcome | None, TableRow]]

    def columns(self, view: RunView) -> list[TableColumn]:
        """Model, the axes on which cases differ, and the figures."""
        return [
            TableColumn("Status", 9),
            TableColumn("Model", self._model_width(view), priority=-2),
            *(self._column(each, view) for each in self._differing(view)),
            *self._figure_columns(view),
            TableColumn("Verdict", 11),
        ]

    def _figure_columns(self, view: RunView) -> list[TableColumn]:
        """Times and memory; of a run that only records memory, its peaks."""
        if _only_records(view):
            known = [told for state in view.cases if (told := peaks_of(state).told)]
            title = _PEAK_TITLES[known[0][1]] if known else "Peak"
            return [TableColumn(title, 9, "right")]
        return [
            TableColumn("Step ms ± std", 14, "right", priority=-2),
            TableColumn("95 %", 7, "right", priority=2),
            TableColumn("Trend", SPARK, priority=3),
            TableColumn("CV", 6, "right", priority=1),
            TableColumn("Tokens/s", 9, "right", priority=4),
            TableColumn(_PEAK_TITLES[kind_of(view.cases)], 9, "right", priority=1),
        ]

    def rows(self, view: RunView, curves: CaseCurves | None, *, alive: bool) -> list[TableRow]:
        """One row a case, in the order in which they run; none runs on without an engine."""
        columns, recorded = self._differing(view), _only_records(view)
        out = []
        for case in view.cases:
            held = self.known.get(case.index)
            if held is None or held[0] is not case or held[1:3] != (alive, view.outcome):
                own = curves if curves and curves.key == (case.index, case.attempt) else None
                told = case if alive else final(case, view.outcome)
                held = case, alive, view.outcome, self._row(told, columns, own, recorded)
                self.known[case.index] = held
            out.append(held[-1])
        return out

    def _row(
        self,
        case: CaseState,
        columns: Sequence[CaseColumn],
        curves: CaseCurves | None,
        recorded: bool,
    ) -> TableRow:
        cells = [self._status(case), TableCell(clean(case.case.model.name, MOST_NAME), "title")]
        cells += [TableCell(each.read(case.case)) for each in columns]
        cells += [_recorded_peak(case)] if recorded else self._figures(case, curves)
        return TableRow(str(case.index), (*cells, self._verdict(case)))

    def _status(self, case: CaseState) -> TableCell:
        look = self.look
        sign = {"ok": look.ok, "running": look.running, "pending": look.pending}.get(
            case.status, look.bad
        )
        name: str = case.status
        cut_off = case.failure is not None and case.failure.outside  # it did nothing wrong itself
        if case.status == "oom" and case.failure and case.failure.predicted:
            name = "won't fit"
        done = f"{len(case.measured)}/{case.case.measure_steps}"  # as the status line counts
        if case.status == "running" and len(case.measured) and len(done) <= 7:
            name = done
        role = "warn" if cut_off else _STATUS_ROLES[case.status]
        return TableCell(f"{sign} {name}", role, float(case.index))

    def _figures(self, case: CaseState, curves: CaseCurves | None) -> list[TableCell]:
        mean, std, half, cv = _mean(case, curves)
        tokens = case.case.tokens / mean * 1000 if mean else None
        peak = case.memory.peak_bytes if case.memory else None
        recent = case.measured.total_ms(max(0, len(case.measured) - SPARK))
        return [
            TableCell(mean_interval(mean, std), "text", mean, mean_interval(mean, None)),
            TableCell(interval_text(mean, half), "muted", half),
            TableCell(sparkline(recent, SPARK, self.look.spark), "total"),
            TableCell(percent_text(cv), "text", cv),
            TableCell(number_text(tokens, 0), "text", tokens),
            TableCell(memory_text(peak), "text", peak),
        ]

    def _verdict(self, case: CaseState) -> TableCell:
        if case.failure is not None:
            asked = case.failure.bytes_asked
            where = f"in {case.failure.phase}" if case.failure.phase else ""
            size = f"asked {memory_text(asked)}:" if asked else ""
            words = [word for word in (where, size, case.failure.message) if word]
            return TableCell(clean(" ".join(words), 200), _STATUS_ROLES[case.status], short=where)
        total = total_of(case) if case.done else None
        if total is None:
            return TableCell("", "muted")
        verdict = stability(total)
        role = {"very stable": "good", "acceptable": "text"}.get(verdict, "warn")
        return TableCell(verdict, role, short=verdict.partition(":")[0])

    def _differing(self, view: RunView) -> list[CaseColumn]:
        """The columns in which cases differ."""
        cases = [state.case for state in view.cases]
        return [each for each in CASE_COLUMNS if len(set(map(each.read, cases))) > 1]

    def _column(self, each: CaseColumn, view: RunView) -> TableColumn:
        longest = max(len(each.read(state.case)) for state in view.cases)
        return TableColumn(each.title, max(len(each.title), longest), priority=-1)

    def common(self, view: RunView) -> str:
        """What all cases share, for the table's heading."""
        if not view.cases:
            return ""
        case = view.cases[0].case
        varying = {each.title for each in self._differing(view)}
        shared = [axis for axis in GRID if axis.label not in varying]
        return " · ".join(
            str(axis.shown(axis.of(case)))
            if axis.values
            else f"{axis.label.lower()} {axis.of(case)}"
            for axis in shared
            if axis.changes in ("work", "phases") or axis.of(case) != axis.neutral
        )

    def _model_width(self, view: RunView) -> int:
        names = [cell_len(clean(case.case.model.name, MOST_NAME)) for case in view.cases]
        return min(20, max([6, *names]))


def _only_records(view: RunView) -> bool:
    """Whether no case of a run times steps: each records its memory."""
    return bool(view.cases) and all(state.case.probe == "memory" for state in view.cases)


def _recorded_peak(case: CaseState) -> TableCell:
    told = peaks_of(case).told
    size = None if told is None else told[0]
    return TableCell(memory_text(size), "text", size)


def _mean(
    case: CaseState, curves: CaseCurves | None
) -> tuple[float | None, float | None, float | None, float | None]:
    """Mean, std, interval and CV: of a running case from the running mean, which costs nothing."""
    if case.done or curves is None:
        total = total_of(case) if case.done else None
        if total is None:
            return None, None, None, None
        return total.mean, total.std, total.ci95, total.cv_percent
    running = curves.total
    if not running.n:
        return None, None, None, None
    return running.mean, running.std, running.ci95, running.cv_percent
