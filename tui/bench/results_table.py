"""The results table: one row a case, from pending to its verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llmprof.core.report.subject import final
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.summary import stability
from llmprof.core.system.text import clean
from llmprof.tui.kit.format import mean_interval, memory_text, number_text, percent_text, sparkline
from llmprof.tui.kit.look import Look
from llmprof.tui.kit.table_cells import TableCell, TableColumn, TableRow
from llmprof.tui.session.curves import CaseCurves, total_of

SPARK = 8
_AXES: tuple[tuple[str, int, Callable[[CaseState], str]], ...] = (
    ("Mode", 16, lambda c: c.case.mode),
    ("Context", 7, lambda c: str(c.case.context_length)),
    ("Batch", 5, lambda c: str(c.case.batch_size)),
    ("Prec.", 5, lambda c: c.case.precision),
    ("Attn.", 5, lambda c: c.case.attention),
    ("Optim.", 7, lambda c: c.case.optimizer),
    ("Compile", 7, lambda c: c.case.compile or "eager"),
    ("Warm-up", 7, lambda c: str(c.case.warmup_steps)),
)
_STATUS_ROLES = {
    "ok": "good", "running": "accent", "pending": "muted", "oom": "bad", "error": "bad",
    "killed": "bad", "timeout": "bad", "unsupported": "warn", "skipped": "warn",
}  # fmt: skip


@dataclass
class ResultRows:
    """Builds the table; rows of cases that did not change are taken over from before."""

    look: Look
    known: dict[int, tuple[CaseState, bool, TableRow]]

    def columns(self, view: RunView) -> list[TableColumn]:
        """Model, the axes on which cases differ, and the figures."""
        return [
            TableColumn("Status", 9),
            TableColumn("Model", self._model_width(view)),
            *(TableColumn(name, width) for name, width, _ in self._axes(view)),
            TableColumn("Step ms", 14, "right"),
            TableColumn("Trend", SPARK, priority=3),
            TableColumn("CV", 6, "right", priority=1),
            TableColumn("Tokens/s", 9, "right", priority=4),
            TableColumn("Peak", 9, "right", priority=1),
            TableColumn("Verdict", 11, flexible=True),
        ]

    def rows(self, view: RunView, curves: CaseCurves | None, *, alive: bool) -> list[TableRow]:
        """One row a case, in the order in which they run; none runs on without an engine."""
        axes = self._axes(view)
        out = []
        for case in view.cases:
            held = self.known.get(case.index)
            if held is None or held[0] is not case or held[1] is not alive:
                own = curves if curves and curves.key == (case.index, case.attempt) else None
                told = case if alive else final(case)
                held = case, alive, self._row(told, axes, own)
                self.known[case.index] = held
            out.append(held[2])
        return out

    def _row(
        self, case: CaseState, axes: Sequence[tuple[str, int, Callable[[CaseState], str]]],
        curves: CaseCurves | None,
    ) -> TableRow:  # fmt: skip
        cells = [self._status(case), TableCell(clean(case.case.model.name, 40), "title")]
        cells += [TableCell(read(case)) for _, _, read in axes]
        return TableRow(str(case.index), (*cells, *self._figures(case, curves)))

    def _status(self, case: CaseState) -> TableCell:
        look = self.look
        sign = {"ok": look.ok, "running": look.running, "pending": look.pending}.get(
            case.status, look.bad
        )
        name = case.status
        if case.status == "oom" and case.failure and case.failure.predicted:
            name = "won't fit"  # type: ignore[assignment]
        done = f"{len(case.measured)}/{case.case.measure_steps}"  # as the status line counts
        if case.status == "running" and len(case.measured) and len(done) <= 7:
            name = done  # type: ignore[assignment]
        return TableCell(f"{sign} {name}", _STATUS_ROLES[case.status], float(case.index))

    def _figures(self, case: CaseState, curves: CaseCurves | None) -> list[TableCell]:
        mean, half, cv = _mean(case, curves)
        tokens = case.case.tokens / mean * 1000 if mean else None
        peak = case.memory.peak_bytes if case.memory else None
        recent = case.measured.total_ms(max(0, len(case.measured) - SPARK))
        return [
            TableCell(mean_interval(mean, half), "text", mean),
            TableCell(sparkline(recent, SPARK, self.look.spark), "total"),
            TableCell(percent_text(cv), "text", cv),
            TableCell(number_text(tokens, 0), "text", tokens),
            TableCell(memory_text(peak), "text", peak),
            self._verdict(case),
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

    def _axes(self, view: RunView) -> list[tuple[str, int, Callable[[CaseState], str]]]:
        first = view.cases[0] if view.cases else None
        return [
            axis
            for axis in _AXES
            if first and any(axis[2](case) != axis[2](first) for case in view.cases)
        ]

    def common(self, view: RunView) -> str:
        """What all cases share, for the table's heading."""
        if not view.cases:
            return ""
        varying = {name for name, _, _ in self._axes(view)}
        case = view.cases[0].case
        parts = {"Mode": case.mode, "Context": f"ctx {case.context_length}",
                 "Batch": f"batch {case.batch_size}", "Prec.": case.precision,
                 "Attn.": case.attention}  # fmt: skip
        return " · ".join(text for name, text in parts.items() if name not in varying)

    def _model_width(self, view: RunView) -> int:
        names = [len(clean(case.case.model.name, 40)) for case in view.cases]
        return min(20, max([6, *names]))


def _mean(
    case: CaseState, curves: CaseCurves | None
) -> tuple[float | None, float | None, float | None]:
    """Mean, interval and CV: of a running case from the running mean, which costs nothing."""
    if case.done or curves is None:
        total = total_of(case) if case.done else None
        return (total.mean, total.ci95, total.cv_percent) if total else (None, None, None)
    running = curves.total
    std = running.std
    if not running.n:
        return None, None, None
    return running.mean, running.ci95, None if std is None else 100 * std / running.mean
