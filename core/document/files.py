"""A document and what lies beside it: which files there are, under which names."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from llmprof.core.document.html import write_html
from llmprof.core.document.loops import with_loops
from llmprof.core.document.markdown import write_markdown
from llmprof.core.document.sections import Document, document
from llmprof.core.document.sources import Source, sources_of
from llmprof.core.document.tables import Tables, tables_of
from llmprof.core.report.case_csv import flat
from llmprof.core.report.csv_cells import csv_cell
from llmprof.core.report.exports import rates_of, step_document
from llmprof.core.report.long_csv import to_cells
from llmprof.core.report.loops import loops_csv
from llmprof.core.report.registry import tables
from llmprof.core.report.table import Table
from llmprof.core.state.view import RunView

DocumentFormat = Literal["md", "html"]
FORMATS: tuple[DocumentFormat, ...] = ("md", "html")


def document_files(document: Document, path: Path, fmt: DocumentFormat) -> dict[Path, str]:
    """Every file of a document with its text, the document itself first."""
    stem, sources = path.stem, document.tables.sources
    trained = with_loops(sources)
    beside = {}
    if len(trained) < len(sources):
        beside[f"{stem}-cases.csv"] = cases_csv(sources)
        beside[f"{stem}-samples.csv"] = samples_csv(sources)
    for at, source in enumerate(trained, 1):
        name = f"{stem}-rows.csv" if len(trained) == 1 else f"{stem}-rows-{at}.csv"
        beside[name] = loops_csv(source.subject)
    beside[f"{stem}-tables.csv"] = tables_csv(document.tables)
    if document.figures:
        beside[f"{stem}-figures.csv"] = to_cells(figure.data for figure in document.figures)
    names = tuple(beside)
    if fmt == "html":
        text = write_html(document, names)
    else:
        text = write_markdown(document, stem, names)
        beside |= {f"{stem}-{each.name}.svg": each.document() for each in document.figures}
    return {path: text, **{path.with_name(name): body for name, body in beside.items()}}


def document_of_run(view: RunView, path: Path) -> Document:
    """The whole document of one run that lies somewhere."""
    return document(tables_of(sources_of([(view, path)])))


def cases_csv(sources: Sequence[Source]) -> str:
    """One row a case of every run."""
    return _csv(
        {"run": source.name}
        | flat(state, source.subject.verdicts[state.index])
        | rates_of(state, source.subject)
        for source in sources
        for state in source.subject.cases
    )


def samples_csv(sources: Sequence[Source]) -> str:
    """One row a step of every case."""
    return _csv(
        {"run": source.name, "case": state.index + 1, "configuration": state.case.label}
        | step_document(step, warmup=warmup)
        for source in sources
        for state in source.subject.cases
        for steps, warmup in ((state.warmup, True), (state.measured, False))
        for step in steps
    )


def tables_csv(found: Tables) -> str:
    """The document's own tables whole, then all of its runs but the steps."""
    own = (replace(each.table, key=f"document/{each.table.key}") for each in found.whole)
    of_runs = (
        _named(table, source, len(found.sources) > 1)
        for source in found.sources
        for table in tables(source.subject)
        if table.key != "step-log"
    )
    return to_cells((*own, *of_runs))


def _named(table: Table, source: Source, several: bool) -> Table:
    return replace(table, key=f"{source.name}/{table.key}") if several else table


def _csv(rows: Iterable[dict[str, Any]]) -> str:
    listed = list(rows)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(listed[0]) if listed else ["run"], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in listed)
    return out.getvalue()
