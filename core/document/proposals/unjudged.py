"""What one process says would help much: to be judged."""

from __future__ import annotations

from collections.abc import Iterator

from llmprof.core.document.changes import Change
from llmprof.core.document.configurations import work_of
from llmprof.core.document.leads import axis_of, judging, largest_lead
from llmprof.core.document.next_step import COMPILED, NextStep, Target
from llmprof.core.document.quotes import Sentence
from llmprof.core.document.tables import Tables


def compile_lead(tables: Tables) -> Change | None:
    """The largest lead, where compiling made a step shorter."""
    lead = _shorter_lead(tables)
    return lead if lead is not None and _compiles(lead) else None


def other_than_compiling(of: Target) -> Iterator[NextStep]:
    """The largest lead, where launches.compiled() does not tell it."""
    lead = _shorter_lead(of.tables)
    if lead is not None and not _compiles(lead):
        yield judged_lead(of.tables, lead)


def _shorter_lead(tables: Tables) -> Change | None:
    lead = largest_lead(tables)
    return lead if lead is not None and lead.found.total.time.value < 1 else None


def _compiles(lead: Change) -> bool:
    return axis_of(lead).field == "compile" and lead.found.other.case.compile is not None


def judged_lead(tables: Tables, lead: Change) -> NextStep:
    """The command that judges it."""
    return NextStep(
        lead_told(tables, lead),
        judging(lead),
        f"{lead_change(tables, lead)} as there, if other processes bear it out",
        COMPILED,
        1 - lead.found.total.time.value,
    )


def lead_told(tables: Tables, lead: Change) -> Sentence:
    """torch.compile took the step of small (128 tokens) from 57.7 to 21.93 ms in one process."""
    assert tables.changes is not None
    key = lead.key(lead.found.total)
    return tables.changes.told(
        key,
        "{Switch} took the step of {Size} {work} from {Baseline} to {With it} ms in one process",
        work=work_of(tables.changes, key),
    )


def lead_change(tables: Tables, lead: Change) -> str:
    """−62.0 %."""
    assert tables.changes is not None
    return f"{tables.changes.quote(lead.key(lead.found.total), 'Change').text} %"
