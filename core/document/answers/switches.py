"""What mixed precision and compiling change, from without to with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence

from llmprof.core.document.changes import Change
from llmprof.core.document.commands import judged, missing
from llmprof.core.document.configurations import parameters, work_of
from llmprof.core.document.quotes import KeyedTable, Sentence, joined, number
from llmprof.core.document.tables import Tables
from llmprof.core.figures.comparison import PartChange

HALF = ("bf16", "fp16")
NORM = ("norm statistics", "norm output")


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


def half_sums(tables: Tables) -> Iterable[Sentence]:
    """What sums in half precision came to on this device, and how a norm was computed."""
    grids = tables.grids_named("data-types")
    sums = [line for grid in grids for line in _sums(grid)]
    yield from sums
    if sums:
        yield ("Each addition rounds to the bits of the sum's type, and a sum stops growing where "
               "a term is less than half its last bit.",)  # fmt: skip
    for grid in grids:
        yield from _norms(grid)


def _sums(grid: KeyedTable) -> Iterable[Sentence]:
    """Terms of half precision added up in it, and in float32."""
    rows = {
        (grid.quote(key, "Terms").text, grid.quote(key, "Sum").text): key
        for key in grid.keys
        if grid.known(key, "Terms")
    }
    for (terms, total), key in rows.items():
        wide = rows.get((terms, "float32"))
        if terms == total and wide is not None and wide != key:
            yield grid.told(
                key,
                "{Terms} summed in {Sum}: {Result} where {Exact} is exact ({Error} %); summed in "
                "float32: {wide} ({error} %).",
                wide=(grid.quote(wide, "Result"),),
                error=(grid.quote(wide, "Error"),),
            )


def _norms(grid: KeyedTable) -> Iterable[Sentence]:
    """The data types of a norm's parts under autocast, and why they are kept wide."""
    half = [column.header for column in grid.table.columns if column.header in HALF]
    for key in grid.keys if half else ():
        if grid.known(key, "Why it matters") and grid.quote(key, "Component").text in NORM:
            seen = joined(grid.told(key, f"{{{name}}} under {name}") for name in half)
            yield grid.told(key, "{Component}: {seen}; {Why it matters}.", seen=seen)


def mixed(tables: Tables) -> Iterable[Sentence]:
    """Steps with and without each half precision."""
    measured = {each.name: each for each in tables.all_changes if _is_model(each)}
    there = [name for name in HALF if name in measured]
    yield from _changes(tables, lambda each: _is_model(each) and each.name in HALF)
    for precision in there:
        yield from trends(tables, precision)
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
        "{Model Size}, {Mode}{context}, compiled ({Compile}): a step from {eager} ms eager to "
        "{Step} ms, a speed-up of {Speed-up} ×; {cost}{repaid}{Verdict}.",
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
    return not change.of_attention


def _changes(tables: Tables, wanted: Callable[[Change], bool]) -> Iterable[Sentence]:
    """A line a change; a reason why none is judged stands in the first of them alone."""
    table = tables.changes
    found = [change for change in tables.all_changes if wanted(change)]
    unjudged = {change.verdict_cell(change.found.total) for change in found if change.why_not}
    alike = len(found) > 1 and len(unjudged) == 1 and all(change.why_not for change in found)
    for at, change in enumerate(found if table else ()):
        assert table is not None
        key = change.key(change.found.total)
        verdict: Sentence = () if alike and at else (table.quote(key, "Verdict"),)
        if alike and not at:
            verdict = (*verdict, ", as in all below")
        told = [each for each in (_phases(table, change), verdict) if each]
        yield table.told(
            key,
            "{Size}, {Switch} {work}: from {Baseline} to {With it} ms{change}{beside}.",
            work=work_of(table, key),
            change=_percent(table, change, change.found.total, ", "),
            beside=(" (", *joined(told, "; "), ")") if told else (),
        )


def _phases(table: KeyedTable, change: Change) -> Sentence:
    """What the phases changed that the switch acts on."""
    parts = [part for part in change.found.parts if part.touched and part.told]
    return joined(_percent(table, change, part, f"{part.part} ") for part in parts)


def _percent(table: KeyedTable, change: Change, part: PartChange, before: str) -> Sentence:
    """A change with its sign; () where none stands as a figure."""
    if not part.told:
        return ()
    cell = table.quote(change.key(part), "Change")
    return (f"{before}{'+' if number(cell) > 0 else ''}", cell, " %")


def trends(tables: Tables, precision: str) -> Iterable[Sentence]:
    """How what a precision changes goes with the size, of equal work in one run."""
    table = tables.changes
    alike: dict[Hashable, list[Change]] = {}
    for change in tables.all_changes if table else ():
        case = change.found.other.case
        if _is_model(change) and change.name == precision and change.found.total.told:
            work = change.source.name, case.mode, case.context_length, case.batch_size
            alike.setdefault(work, []).append(change)
    for group in alike.values():
        assert table is not None
        group.sort(key=lambda each: parameters(each.found.other))
        keys = [each.key(each.found.total) for each in group]
        if len({each.found.other.case.model for each in group}) < 2:
            continue
        steps = joined(
            (*_percent(table, each, each.found.total, ""), " in ", table.quote(key, "Size"))
            for each, key in zip(group, keys, strict=True)
        )
        where = work_of(table, keys[0], "Size")
        yield (f"{precision} by size ", *where, ": ", *steps, f"; {_trend(group)}.")


def _trend(group: Sequence[Change]) -> str:
    """Which way the change goes from the smallest to the largest, where their intervals tell."""
    if any(change.why_not for change in group):
        return "no trend: not judged"
    values = [change.found.total.time.value for change in group]
    first, last = (change.found.total.time for change in (group[0], group[-1]))
    if values == sorted(values, reverse=True) and (last.high or 1.0) < (first.low or 0.0):
        return "the larger the model, the more time it saves"
    if values == sorted(values) and (last.low or 0.0) > (first.high or math.inf):
        return "the larger the model, the less time it saves"
    return "no trend beyond the intervals"
