"""An attention of someone's own that computes something else than attention."""

from __future__ import annotations

from collections.abc import Iterator

from llmprof.core.document.finding import Finding
from llmprof.core.document.tables import Tables
from llmprof.core.lint.observed import off_reference
from llmprof.core.report.sentences import listing
from llmprof.core.spec.axes import BY_FIELD
from llmprof.core.spec.own_function import is_function


def attention(tables: Tables) -> Iterator[Finding]:
    """The functions whose results rounding does not explain."""
    names = dict.fromkeys(
        BY_FIELD["attention"].brief(state.case.attention)
        for source in tables.sources
        for state in source.cases
        if is_function(state.case.attention) and off_reference(state)
    )
    if names:
        text = (
            f"{listing(list(names))} {'does' if len(names) == 1 else 'do'} not compute causal "
            "attention: results differ from naive attention's by more than rounding explains, so "
            "the times are of something else."
        )
        yield Finding("wrong", (text,), 2.0)
