"""How a case is told apart in a document's tables: model, work, and the run it is from."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from llmprof.core.document.quotes import KeyedTable, Quote, Sentence
from llmprof.core.document.sources import Source
from llmprof.core.report.table import Cell, Column
from llmprof.core.report.timing import parameters_of
from llmprof.core.spec.axes import SWITCHES
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState

OF_MODEL = (
    Column("Size", numeric=False),
    Column("Mode", numeric=False),
    Column("Context", "tokens"),
    Column("Batch"),
)

LABELS = ("Size", "Context", "Part", "Kind", "Switch", "Warm-up")  # that every line tells


def configuration_cells(state: CaseState) -> tuple[Cell, ...]:
    """The cells of OF_MODEL."""
    case = state.case
    mode = "attention" if case.probe == "attention" else case.mode
    return case.model.name, mode, case.context_length, case.batch_size


def parameters(state: CaseState) -> int:
    """Counted parameters, by which sizes are ordered; 0 where they are not known."""
    return parameters_of(state) or 0


def source_columns(sources: Sequence[Source]) -> tuple[Column, ...]:
    """A column that names the run, where there are several."""
    return (Column("Run", numeric=False),) if len(sources) > 1 else ()


def source_cells(source: Source, head: Sequence[Column]) -> tuple[Cell, ...]:
    """The cell of source_columns()."""
    return (source.name,) if head else ()


def is_plain(case: Case) -> bool:
    """Whether no switch is on."""
    return all(axis.of(case) == axis.neutral for axis in SWITCHES)


def switches_text(case: Case) -> str:
    """The switches that are on: bf16 + SDPA; fp32 where none is."""
    on = [axis.named(axis.of(case)) for axis in SWITCHES if axis.of(case) != axis.neutral]
    if case.precision == "fp32":
        on = ["fp32", *on]
    return " + ".join(on)


def work_of(table: KeyedTable, key: Hashable, *told: str) -> Sentence:
    """(512 tokens, batch 4, run memory): the context, and what else tells this row from others.

    told: further columns that the line names elsewhere.
    """
    headers = {column.header for column in table.table.columns}

    def cell(row: Hashable, header: str) -> str:
        return table.quote(row, header).text if header in headers else ""

    alike = [
        row for row in table.keys if all(cell(row, h) == cell(key, h) for h in (*LABELS, *told))
    ]
    pieces: list[str | Quote] = ["(", table.quote(key, "Context"), " tokens"]
    for header, word in (("Mode", ""), ("Variant", ""), ("Batch", "batch "), ("Run", "run ")):
        if len({cell(row, header) for row in alike}) > 1:
            pieces += [f", {word}", table.quote(key, header)]
            alike = [row for row in alike if cell(row, header) == cell(key, header)]
    return (*pieces, ")")
