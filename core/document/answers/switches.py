"""What mixed precision and compiling change."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from llmprof.core.document.changes import Change
from llmprof.core.document.commands import judged, missing
from llmprof.core.document.configurations import work_of
from llmprof.core.document.quotes import KeyedTable, Sentence, joined
from llmprof.core.document.tables import Tables

HALF = ("bf16", "fp16")


def data_types(tables: Tables) -> Iterable[Sentence]:
    """Which components have which type, a line for each half precision; each from one run."""
    lines: dict[str, Sentence] = {}
    for grid in tables.grids_named("data-types"):
        for column in grid.table.columns:
            if column.header in HALF and column.header not in lines:
                lines[column.header] = _types_in(grid, column.header)
    yield from lines.values()
    for precision in HALF if lines else ():
        if precision not in lines:
            yield missing(precision, f"llmprof run precision --precision fp32,{precision}")


def _types_in(grid: KeyedTable, precision: str) -> Sentence:
    found: dict[str, list[Hashable]] = {}
    for key in grid.keys:
        if grid.known(key, precision):
            found.setdefault(grid.quote(key, precision).text, []).append(key)
    parts = (
        grid.told(
            keys[0],
            f"{{{precision}}} for {{which}}",
            which=joined(grid.told(key, "{Component}") for key in keys),
        )
        for keys in found.values()
    )
    return (f"With autocast to {precision}: ", *joined(parts, "; "), ".")


def mixed(tables: Tables) -> Iterable[Sentence]:
    """Steps with and without each half precision."""
    measured = {each.name: each for each in tables.all_changes if _is_model(each)}
    there = [name for name in HALF if name in measured]
    yield from _changes(tables, lambda each: _is_model(each) and each.name in HALF)
    for precision in HALF if there else ():
        if precision not in there:
            base = measured[there[0]].found.base.case
            yield missing(precision, judged(base, "precision", "fp32", precision))


def compiled_attention(tables: Tables) -> Iterable[Sentence]:
    """Attention alone, compiled and not."""
    return _changes(
        tables, lambda each: not _is_model(each) and each.found.other.case.compile is not None
    )


def compiled_model(tables: Tables) -> Iterable[Sentence]:
    """Each compiled step beside the eager one."""
    for grid in tables.grids_named("compile"):
        eager: Hashable = None
        for key in grid.keys:
            if grid.quote(key, "Verdict").text == "baseline":
                eager = key
            elif grid.known(key, "Speed-up"):
                yield _compiled(grid, key, eager)


def _compiled(grid: KeyedTable, key: Hashable, eager: Hashable) -> Sentence:
    """A step compiled and eager, what compiling took and when it is repaid, and the verdict."""

    def known(header: str, text: str) -> Sentence:
        return grid.told(key, text) if grid.known(key, header) else ()

    return grid.told(
        key,
        "{Model Size}, {Mode}{context}, compiled ({Compile}): a step takes {Step} ms against "
        "{eager} ms eager, a speed-up of {Speed-up} ×; {cost}{repaid}{Verdict}.",
        context=known("Context", " ({Context} tokens)"),
        eager=(grid.quote(eager, "Step"),),
        cost=known(
            "Compile + first step", "compiling with the first step takes {Compile + first step} s; "
        ),
        repaid=()
        if _unjudged(grid, key)
        else known("Steps until repaid", "steps until that is repaid: {Steps until repaid}; "),
    )


def _unjudged(grid: KeyedTable, key: Hashable) -> bool:
    """Whether nothing is said of when compiling is repaid, for which the verdict has the reason."""
    header = "Steps until repaid"
    return grid.known(key, header) and grid.quote(key, header).text.startswith("not ")


def _is_model(change: Change) -> bool:
    return change.found.other.case.probe != "attention"


def _changes(tables: Tables, wanted: Callable[[Change], bool]) -> Iterable[Sentence]:
    table = tables.changes
    for change in tables.all_changes if table else ():
        assert table is not None
        if wanted(change):
            key = change.key(change.found.total)
            yield table.told(
                key,
                "{Size}, {Switch} {work}: {With it} ms against {Baseline} ms ({Verdict}).",
                work=work_of(table, key),
            )
