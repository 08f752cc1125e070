"""A change too large to pass over though its cells are of one process, so that none judges it."""

from __future__ import annotations

from collections.abc import Iterator

from llmprof.core.document.configurations import work_of
from llmprof.core.document.finding import Finding
from llmprof.core.document.leads import judging, largest_lead
from llmprof.core.document.tables import Tables


def large(tables: Tables) -> Iterator[Finding]:
    """The largest lead."""
    lead, table = largest_lead(tables), tables.changes
    if lead is None or table is None:
        return
    key = lead.key(lead.found.total)
    text = table.told(
        key,
        "{Switch}, in one process and so not judged: it takes the step of {Size} {work} from "
        "{Baseline} to {With it} ms, far from the {Baseline in all runs} ms that its baseline took "
        "in all runs; {command} judges it.",
        work=work_of(table, key),
        command=f"`{judging(lead)}`",
    )
    yield Finding("unjudged", text, 0.45)
