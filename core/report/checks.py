"""The lint's warnings and errors, each with what it means."""

from __future__ import annotations

from llmprof.core.lint import EXPLAINED
from llmprof.core.report.subject import subject_of
from llmprof.core.report.table import Cell, Column, Table
from llmprof.core.state.view import RunView

COLUMNS = (
    Column("Case"),
    Column("Configuration", numeric=False),
    Column("Level", numeric=False),
    Column("Check", numeric=False),
    Column("Finding", numeric=False),
)


def checks(view: RunView) -> Table | None:
    """Every warning and error, errors first; None where there is none, folded without errors."""
    found = [
        (verdict.level != "error", index, verdict)
        for index, verdicts in subject_of(view).verdicts.items()
        for verdict in verdicts
        if verdict.level != "info"
    ]
    if not found:
        return None
    found.sort(key=lambda item: item[:2])
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            index + 1,
            view.cases[index].case.label,
            verdict.level.upper() if verdict.level == "error" else verdict.level,
            verdict.rule,
            verdict.text,
        )
        for _, index, verdict in found
    )
    rules = dict.fromkeys(verdict.rule for _, _, verdict in found)
    notes = tuple(f"{rule}: {EXPLAINED[rule]}" for rule in rules)
    errors = any(verdict.level == "error" for _, _, verdict in found)
    return Table("checks", "Failed checks", COLUMNS, rows, notes, folded=not errors)
