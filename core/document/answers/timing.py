"""How long a step takes, how much that varies, and what warm-up does to it."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.document.commands import in_mode
from llmprof.core.document.configurations import work_of
from llmprof.core.document.quotes import Sentence, joined
from llmprof.core.document.steps import step_key
from llmprof.core.document.tables import Tables
from llmprof.core.document.warmups import warmup_key
from llmprof.core.report.sentences import listing

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
            key, "{Size} {work}: {times}{end}.", work=work_of(table, key), times=times, end=end
        )


def spread(tables: Tables) -> Iterable[Sentence]:
    """The coefficient of variation of each size."""
    table = tables.steps
    for source, state in tables.step_cells if table else ():
        assert table is not None
        key = step_key(source, state)
        if state.total is not None and table.known(key, "CV"):
            yield table.told(
                key, "{Size} {work}: {CV} % of the mean of {Step} ms.", work=work_of(table, key)
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
            "process took {First step} ms.",
            work=work_of(table, keys[0], "Mode"),
            means=joined(table.told(key, "{Mean} ms after {Warm-up}") for key in keys),
        )
