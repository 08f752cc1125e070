"""How far attention alone goes, what it keeps, and which kernel does it fastest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from llmprof.core.document.cost import NOT_STANDING
from llmprof.core.document.growth import MEMORY_KEPT, Growth
from llmprof.core.document.quotes import KeyedTable, Sentence, joined, number
from llmprof.core.document.sources import Source
from llmprof.core.document.tables import Tables, grid_key
from llmprof.core.figures.replicates import processes_of
from llmprof.core.report.attention_kernels import (
    Ranking,
    in_rows,
    kernel_groups,
    ranking,
)
from llmprof.core.report.growth_fits import LAUNCH_BOUND
from llmprof.core.spec.own_function import is_function
from llmprof.core.state.view import CaseState

ATTENTION = "attention"
MOST_ALIVE = 3  # tensors of an account
OWN = "llmprof run attention-kernels --attention FILE.py:FUNCTION"


def out_of_memory(tables: Tables) -> Iterable[Sentence]:
    """Of attention alone: what did not fit with an account of it, or how far it went."""
    table, grown = tables.out_of_memory_table, tables.growth
    keys = (
        [key for key in table.keys if table.quote(key, "Mode").text == ATTENTION] if table else ()
    )
    for key in keys:
        assert table is not None
        yield table.told(key, "{Size}, {Variant} ({Context} tokens): out of memory in {Failed in}.")
    if keys:
        yield from (_account(grid) for grid in tables.grids_named("oom-account")[:1])
    attention = [each for each in tables.growths if each.what.startswith(ATTENTION)]
    if not keys and attention and grown is not None:
        yield grown.told(attention[-1].key, "Nowhere up to {Longest context} tokens ({What}).")


def _account(grid: KeyedTable) -> Sentence:
    """The largest tensors alive where a case did not fit, and their sum beside the device."""
    tensors = [key for key in grid.keys if grid.quote(key, "Known").text == "formula"]
    tensors.sort(key=lambda key: -number(grid.quote(key, "Size")))
    rest = [key for key in grid.keys if key not in tensors]
    parts = [*tensors[:MOST_ALIVE], *rest]
    told = joined(
        grid.told(key, "{what} {Size} MiB", what=(grid.quote(key, "What"),)) for key in parts
    )
    return ("By formula, at the step's peak: ", *told, ".")


def kept(tables: Tables) -> Iterable[Sentence]:
    """How what is kept for backward grows with context."""
    table = tables.growth
    for growth in tables.growths if table else ():
        assert table is not None
        if growth.unit != "MiB":
            continue
        if growth.fit is None:
            unsound = growth.source.why_unsound(growth.states)
            why = f"{NOT_STANDING}: {unsound}" if unsound else "no one power describes it"
            yield (f"{_what(growth)}, {growth.way}: measured, but {why}.",)
        else:
            yield table.told(
                growth.key,
                "{what}, {way}: context to the power {Exponent}, {Memory at the longest} MiB at "
                "{Longest context} tokens.",
                what=_what(growth),
                way=growth.way,
            )


def _what(growth: Growth) -> str:
    """Of memory kept, which the question names, the width alone."""
    return growth.what.removeprefix(f"{MEMORY_KEPT}, ")


def kernels(tables: Tables) -> Iterable[Sentence]:
    """At the longest context that ran: one's own kernels against the best of PyTorch's."""
    for source in tables.sources:
        for at, (group, states) in enumerate(kernel_groups(source.subject.as_one).items()):
            key = grid_key("attention-kernels", source, at)
            grid = next((each for each in tables.grids if each.table.key == key), None)
            if grid is not None:
                precision, width = group
                yield _best(grid, f"{width} in {precision}", source, states)


def _best(grid: KeyedTable, name: str, source: Source, states: Sequence[CaseState]) -> Sentence:
    found = ranking(source.subject, states)
    if found is None:
        why = source.why_unsound(states) or LAUNCH_BOUND
        return (f"{name}: measured, but {NOT_STANDING}: {why}.",)
    rows = {state.index: at for at, state in enumerate(chain(*in_rows(states)))}
    one = all(len(processes_of(state)) == 1 for state in states)
    return grid.told(
        rows[found.fastest[0].index],
        "{name}, at {Context} tokens: {parts}{again}{alike}{left_out}{own}{one}.",
        name=name,
        parts=joined(_takes(grid, rows[state.index], state) for state in _chosen(found)),
        again=_further(grid, rows, found.again, "; measured again, "),
        alike=_further(
            grid, rows, found.alike, "; no further from it than measurements of one kernel: "
        ),
        left_out=_left_out(grid, rows, found),
        own=_without_own(states),
        one=" (one process: not judged)" if one else "",
    )


def _takes(grid: KeyedTable, row: int, state: CaseState) -> Sentence:
    ratio = " ({Over naive} × as fast as naive)" if grid.known(row, "Over naive") else ""
    own = "your own " if is_function(state.case.attention) else ""
    return grid.told(row, f"{own}{{Kernel}} takes {{Both}} ms forward and backward{ratio}")


def _further(
    grid: KeyedTable, rows: Mapping[int, int], states: Sequence[CaseState], lead: str
) -> Sentence:
    if not states:
        return ()
    return (lead, *joined(grid.told(rows[s.index], "{Kernel}, {Both} ms") for s in states))


def _left_out(grid: KeyedTable, rows: Mapping[int, int], found: Ranking) -> Sentence:
    if not found.left_out:
        return ()
    parts = (
        grid.told(rows[state.index], f"{{Kernel}}, {{Both}} ms ({', '.join(checks)})")
        for state, checks in found.left_out
    )
    return ("; left out, since a check says no to them: ", *joined(parts, "; "))


def _chosen(found: Ranking) -> list[CaseState]:
    """The fastest of one's own, and the fastest of the others."""
    mine = [state for state in found.fastest if is_function(state.case.attention)]
    return [*mine[:1], *[state for state in found.fastest if state not in mine][:1]]


def _without_own(states: Sequence[CaseState]) -> str:
    if any(is_function(state.case.attention) for state in states):
        return ""
    return f"; no kernel of one's own was measured (`{OWN}` measures it beside them)"
