"""What a step's memory peaks at, what it is made of, and what checkpointing does to it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from llmprof.core.document.answers.switches import HALF
from llmprof.core.document.commands import in_mode, missing
from llmprof.core.document.configurations import switches_text, work_of
from llmprof.core.document.levels import PEAK, level_key
from llmprof.core.document.quotes import KeyedTable, Quote, Sentence, joined, number
from llmprof.core.document.tables import Tables
from llmprof.core.spec.axes import Mode
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState

BLOCKS, BACKWARD = "Blocks a checkpoint", "Peak of backward"
ASKED: dict[Mode, str] = {"forward": "inference", "train": "training"}
COPIES = (
    "Inference peaks with autocast's half-precision copies of the weights beside them, as its "
    "recording has them."
)


def peaks(tables: Tables) -> Iterable[Sentence]:
    """Requested peaks in fp32."""
    return _peaks(tables, ("fp32",))


def mixed_peaks(tables: Tables) -> Iterable[Sentence]:
    """Requested peaks in half precision."""
    return _peaks(tables, HALF)


def _peaks(tables: Tables, ways: tuple[str, ...]) -> Iterable[Sentence]:
    table = tables.levels
    found: dict[Mode, Case] = {}
    copies = False  # of weights, in inference
    alike: dict[Hashable, dict[Mode, Hashable]] = {}  # rows by what is inferred and trained
    for source, state in tables.memory if table else ():
        assert table is not None
        key, case = level_key(source, state, PEAK), state.case
        if case.probe == "attention" or switches_text(case) not in ways:
            continue
        if case.mode in ASKED and table.known(key, "Requested"):
            found[case.mode] = case
            copies |= case.mode == "forward" and _holds_copies(state)
            work = source.name, case.model, case.context_length, case.batch_size, case.precision
            alike.setdefault(work, {})[case.mode] = key
    for keys in alike.values():
        assert table is not None
        first = next(iter(keys.values()))
        yield table.told(
            first,
            "{Size}, {Variant} {work}: {peaks}.",
            work=work_of(table, first, "Mode", "Variant"),
            peaks=joined(_peak(table, keys[mode], what) for mode, what in ASKED.items()
                         if mode in keys),
        )  # fmt: skip
    if copies:
        yield (COPIES,)
    for mode, what in ASKED.items() if found else ():
        if mode not in found:
            yield missing(what, in_mode(next(iter(found.values())), mode, "memory"))


def _holds_copies(state: CaseState) -> bool:
    """Whether autocast's copies of weights are alive at the peak of a recorded step."""
    recorded = state.memory_timeline
    return recorded is not None and bool(recorded.at_peak.get("autocast copies"))


def _peak(table: KeyedTable, key: Hashable, what: str) -> Sentence:
    """training 18,554.1 MiB (in optimizer); inference has but one phase."""
    phase = "" if what == ASKED["forward"] else " (in {Reached in})"
    return table.told(key, f"{what} {{Requested}} MiB{phase}")


def checkpoints(tables: Tables) -> Iterable[Sentence]:
    """Steps without checkpoints, with the best number of blocks a checkpoint, and beside that."""
    for grid in tables.grids_named("checkpointing"):
        heads = [column.header for column in grid.table.columns]
        place = heads[: heads.index(BLOCKS)]
        alike: dict[tuple[str, ...], list[Hashable]] = {}
        for key in grid.keys:
            if _is_figure(grid, key, BACKWARD) and grid.quote(key, "Micro-batches").text == "1":
                alike.setdefault(tuple(grid.quote(key, h).text for h in place), []).append(key)
        for keys in alike.values():
            yield from _checkpoints(grid, keys)


def _checkpoints(grid: KeyedTable, keys: Sequence[Hashable]) -> Iterable[Sentence]:
    """keys: rows that differ in their blocks a checkpoint alone, in order."""
    some = [key for key in keys if grid.quote(key, BLOCKS).text != "none"]
    if not some:
        return
    best = keys.index(min(some, key=lambda key: number(grid.quote(key, BACKWARD))))
    shown = [key for key in keys if key not in some] + list(keys[max(0, best - 1) : best + 2])
    for key in dict.fromkeys(shown):
        context = grid.told(key, " ({Context} tokens)") if grid.known(key, "Context") else ()
        yield grid.told(
            key,
            "{Model Size}{context}, {blocks}: peak of backward {Peak of backward} MiB{backward}, "
            "of step {Peak of step} MiB{step}{time}.",
            context=context,
            blocks=_blocks(grid, key),
            backward=_lowest(grid, key, keys, BACKWARD),
            step=_lowest(grid, key, keys, "Peak of step"),
            time=_time(grid, key),
        )


def _blocks(grid: KeyedTable, key: Hashable) -> Sentence:
    named = {"none": "no checkpoints", "all": "one checkpoint"}
    cell = grid.quote(key, BLOCKS)
    if cell.text in named:
        return (named[cell.text],)
    return (cell, f" {'block' if cell.text == '1' else 'blocks'} a checkpoint")


def _lowest(grid: KeyedTable, key: Hashable, keys: Sequence[Hashable], header: str) -> str:
    """Whether no row's figure is below this one's, and whether others' are as low."""
    own = grid.quote(key, header).text
    figures = [grid.quote(each, header).text for each in keys if _is_figure(grid, each, header)]
    if number(grid.quote(key, header)) > min(float(each.replace(",", "")) for each in figures):
        return ""
    return " (lowest)" if figures.count(own) == 1 else " (lowest, tied)"


def _time(grid: KeyedTable, key: Hashable) -> Sentence:
    """What a step takes, and how much more than without checkpoints."""
    if not _is_figure(grid, key, "Step"):
        return ()
    if not grid.known(key, "Time change"):
        return grid.told(key, "; a step takes {Step} ms")
    change = grid.quote(key, "Time change")
    sign = "+" if number(change) > 0 else ""
    return grid.told(key, f"; a step takes {{Step}} ms, {sign}{{Time change}} %")


def _is_figure(grid: KeyedTable, key: Hashable, header: str) -> bool:
    """Whether a cell holds a number and no word such as skipped."""
    return grid.known(key, header) and grid.quote(key, header).text[0] in "−0123456789"


def tensors(tables: Tables) -> Iterable[Sentence]:
    """Sizes of single tensors."""
    table = tables.tensors
    before = ""
    for at, key in enumerate(table.keys if table else ()):
        assert table is not None
        formula = table.quote(key, "Formula")
        yield table.told(
            key,
            "{Tensor}{place}: {Each} MiB{formula}.",
            place=() if at else table.told(key, " of {Size} ({Context} tokens, batch {Batch})"),
            formula=(", by the same formula",) if formula.text == before else _formula(formula),
        )
        before = formula.text


def _formula(cell: Quote) -> Sentence:
    """The formula; one of several products stands in its table alone."""
    return (", its sum in the table below",) if " + " in cell.text else (" = ", cell)


def largest(tables: Tables) -> Iterable[Sentence]:
    """The largest allocations at the peak."""
    table = tables.largest
    if table is None:
        return
    for at, key in enumerate(table.keys):
        if at == 0:
            work = work_of(table, key, "Mode", "Variant")
            yield table.told(key, "At the peak of {Size}, {Mode}, {Variant} {work}:", work=work)
        yield table.told(key, "{Blocks} × {Each} MiB, {Category}, from {What}.")
