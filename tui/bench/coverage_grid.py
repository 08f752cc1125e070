"""The coverage grid: what became of every case of a run, and what is still to come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len

from llmprof.core.figures.outcomes import outcome_of
from llmprof.core.report.subject import final
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.text import clean
from llmprof.tui.chart.cells import Row
from llmprof.tui.kit.canvas import Canvas, heading, row_length
from llmprof.tui.kit.table_cells import fit
from llmprof.tui.kit.words import told_apart

if TYPE_CHECKING:
    from llmprof.core.report.coverage import OutcomeGrid

COLUMN_GAP = 2
_OUTCOME_ROLES = {
    "done": "good", "running": "accent", "to come": "muted", "missing": "warn", "OOM": "bad",
    "OOM (predicted)": "bad", "failed": "bad", "killed": "bad", "stopped": "warn",
    "unsupported": "warn", "left out": "muted",
}  # fmt: skip
_OUTCOME_SIGNS = {
    "OOM": "O", "OOM (predicted)": "P", "failed": "x", "killed": "k", "stopped": "-",
    "unsupported": "u", "left out": "s", "missing": "?",
}  # fmt: skip
_SHORT_OUTCOMES = {"OOM (predicted)": "won't fit"}


class CoverageGrid(Canvas):
    """One row a configuration, one axis across; the case in sight is marked."""

    DEFAULT_CSS = """
    CoverageGrid { height: 1fr; display: none; }
    """

    def __init__(self) -> None:
        super().__init__(id="coverage-grid")
        self._cases: tuple[CaseState, ...] = ()
        self._grid: OutcomeGrid | None = None
        self._alive = False
        self._sight: int | None = None
        self._known: tuple[object, ...] = ()

    def show(self, view: RunView | None, case: CaseState | None, *, alive: bool) -> None:
        """Take a run, the case in sight, and whether the run goes on."""
        cases = () if view is None else view.cases
        if view is not None and not alive:
            cases = tuple(final(state, view.outcome) for state in cases)
        known = (tuple(state.status for state in cases), case and case.index, alive,
                 None if view is None else view.run_id)  # fmt: skip
        if known == self._known or not self.display:
            return
        from llmprof.core.report.coverage import grid_of  # not needed for the first frame

        self._known, self._cases, self._alive = known, cases, alive
        self._sight = None if case is None else case.index
        self._grid = grid_of(cases)
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """Heading, heads, rows around the case in sight, legend."""
        grid = self._grid
        if grid is None:
            return [heading(self.look, width, "Coverage", "one case only: nothing to lay out")]
        words = [self._word(state) for state in self._cases]
        legend = self._legend(Counter(words), width)
        labels = [self.look.text(" ".join(clean(part, 80) for part in row)) for row, _ in grid.rows]
        left = min(max(map(cell_len, labels)), max(8, width // 3))
        apart = told_apart(labels, left, self.look.ellipsis)
        labels = [
            fit(apart.get(label, label), left, "left", self.look.ellipsis) for label in labels
        ]
        column = self._column(grid, words, width - left)
        shown = max(1, (width - left) // (column + COLUMN_GAP))
        at = self._row_in_sight(grid)
        room = max(1, height - 2 - len(legend))
        first = min(max(0, at - room // 2), max(0, len(labels) - room))
        rows = [
            self._row(label, states, grid.heads[:shown], column)
            for label, (_, states) in list(zip(labels, grid.rows, strict=True))[first:][:room]
        ]
        down = f"{' · '.join(grid.down).lower()} down" if grid.down else ""
        across = f"{grid.across.lower()} across" if grid.across else ""
        note = ", ".join(filter(None, (down, across)))
        if len(labels) > room:
            note += f", rows {first + 1} to {first + len(rows)} of {len(labels)}"
        if shown < len(grid.heads):
            note += f", {shown} of {len(grid.heads)} columns"
        space: list[Row] = [[]] if len(rows) < room else []
        return [
            heading(self.look, width, "Coverage", note),
            self._heads(grid.heads[:shown], left, column),
            *rows,
            *space,
            *legend,
        ]

    def _column(self, grid: OutcomeGrid, words: Sequence[str], room: int) -> int:
        """Width of a cell: with words where all columns have room for them, else signs alone."""
        count = len(grid.heads)
        head = max(cell_len(clean(head, 20)) for head in grid.heads)
        worded = max(head, 2 + max(len(_SHORT_OUTCOMES.get(word, word)) for word in words))
        if count * (worded + COLUMN_GAP) <= room:
            return worded
        return max(1, min(head, room // count - COLUMN_GAP))

    def _heads(self, heads: Sequence[str], left: int, column: int) -> Row:
        gap = " " * COLUMN_GAP
        names = (fit(clean(head, 20), column, "left", self.look.ellipsis) for head in heads)
        return [(" " * left, ""), *((f"{gap}{name}", "muted") for name in names)]

    def _row(
        self, label: str, states: dict[str, CaseState], heads: Sequence[str], column: int
    ) -> Row:
        row: Row = [(label, "text")]
        for head in heads:
            state = states.get(head)
            row.append((" " * COLUMN_GAP, ""))
            if state is None:
                row.append((" " * column, ""))
                continue
            word = self._word(state)
            text = f"{self._sign(word)} {_SHORT_OUTCOMES.get(word, word)}"
            text = text if len(text) <= column else self._sign(word)
            role = _OUTCOME_ROLES[word] + ("+cursor" if state.index == self._sight else "")
            row += [(text, role), (" " * (column - len(text)), "")]
        return row

    def _legend(self, counts: Counter[str], width: int) -> list[Row]:
        """Every sign in use, its word and how many there are; as many lines as it takes."""
        rows: list[Row] = [[]]
        for word in (word for word in _OUTCOME_ROLES if counts[word]):
            part: Row = [
                (f"{self._sign(word)} ", _OUTCOME_ROLES[word]),
                (f"{counts[word]:,} {word}", "muted"),
            ]
            if rows[-1] and row_length(rows[-1]) + 3 + row_length(part) > width:
                rows.append([])
            rows[-1] += [("   ", ""), *part] if rows[-1] else part
        return rows

    def _row_in_sight(self, grid: OutcomeGrid) -> int:
        return next(
            (
                at
                for at, (_, states) in enumerate(grid.rows)
                if any(state.index == self._sight for state in states.values())
            ),
            0,
        )

    def _word(self, state: CaseState) -> str:
        if self._alive and state.status == "running":
            return "running"
        return "to come" if self._alive and state.status == "pending" else outcome_of(state)

    def _sign(self, word: str) -> str:
        look = self.look
        signs = {"done": look.ok, "running": look.running, "to come": look.pending}
        return signs.get(word) or _OUTCOME_SIGNS[word]
