"""How long a step takes, how much that varies, and what warm-up does to it."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.document.commands import in_mode
from llmprof.core.document.configurations import work_of
from llmprof.core.document.quotes import Sentence, joined
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import step_key
from llmprof.core.document.tables import Tables
from llmprof.core.document.warmups import warmup_key
from llmprof.core.report.sentences import listing
from llmprof.core.state.view import CaseState

PARTS = ("Forward", "Backward", "Optimizer")


def phases(tables: Tables) -> Iterable[Sentence]:
    """Forward, backward and optimizer of each size."""
    table = tables.steps
    for source, state in tables.step_cells if table else ():
        assert table is not None
        key = step_key(source, state)
        known = [name for name in PARTS if table.known(key, name)]
        if state.total is None or not known:
            continue
        lacks = listing([name.lower() for name in PARTS if name not in known] or [""])
        times = joined(table.told(key, f"{name.lower()} {{{name}}} ms") for name in known)
        end = f"; {lacks} not measured (`{in_mode(state.case, 'train')}` does)" if lacks else ""
        yield table.told(
            key,
            "{Size} {work}: {times}{end}{failed}.",
            work=work_of(table, key),
            times=times,
            end=end,
            failed=_failed(source, state),
        )


def spread(tables: Tables) -> Iterable[Sentence]:
    """The coefficient of variation of each size."""
    table = tables.steps
    for source, state in tables.step_cells if table else ():
        assert table is not None
        key = step_key(source, state)
        if state.total is not None and table.known(key, "CV"):
            yield table.told(
                key,
                "{Size} {work}: {CV} % of the mean of {Step} ms{failed}.",
                work=work_of(table, key),
                failed=_failed(source, state),
            )


def warmup(tables: Tables) -> Iterable[Sentence]:
    """The mean after each number of warm-up steps."""
    table = tables.warmups
    for source, group in tables.warmup_cells if table else ():
        assert table is not None
        keys = [warmup_key(source, state) for state in group]
        yield table.told(
            keys[0],
            "{Size}, {Mode} {work}: mean of {means} steps of warm-up; the first step of the "
            "process took {First step} ms{failed}.",
            work=work_of(table, keys[0], "Mode"),
            means=joined(table.told(key, "{Mean} ms after {Warm-up}") for key in keys),
            failed=_failed(source, *group, but="warming"),
        )


def _failed(source: Source, *states: CaseState, but: str = "") -> str:
    """The checks that say no to what a line quotes, other than one that it is about."""
    rules = dict.fromkeys(rule for state in states for rule in source.failed_checks(state))
    rules.pop(but, None)
    return f" (failed check {', '.join(rules)})" if rules else ""
