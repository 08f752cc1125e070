"""What a step's memory peaks at, what it is made of, and what checkpointing does to it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from llmprof.core.document.answers.switches import HALF
from llmprof.core.document.commands import in_mode, missing
from llmprof.core.document.configurations import switches_text, work_of
from llmprof.core.document.levels import PEAK, level_key
from llmprof.core.document.quotes import KeyedTable, Quote, Sentence, joined, number
from llmprof.core.document.tables import Tables
from llmprof.core.spec.axes import Mode
from llmprof.core.spec.case import Case

ASKED: dict[Mode, str] = {"forward": "inference", "train": "training"}


def peaks(tables: Tables) -> Iterable[Sentence]:
    """Requested peaks in fp32."""
    return _peaks(tables, ("fp32",))


def mixed_peaks(tables: Tables) -> Iterable[Sentence]:
    """Requested peaks in half precision."""
    return _peaks(tables, HALF)


def _peaks(tables: Tables, ways: tuple[str, ...]) -> Iterable[Sentence]:
    table = tables.levels
    found: dict[Mode, Case] = {}
    alike: dict[Hashable, dict[Mode, Hashable]] = {}  # rows by what is inferred and trained
    for source, state in tables.memory if table else ():
        assert table is not None
        key, case = level_key(source, state, PEAK), state.case
        if case.probe == "attention" or switches_text(case) not in ways:
            continue
        if case.mode in ASKED and table.known(key, "Requested"):
            found[case.mode] = case
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
    for mode, what in ASKED.items() if found else ():
        if mode not in found:
            yield missing(what, in_mode(next(iter(found.values())), mode, "memory"))


def _peak(table: KeyedTable, key: Hashable, what: str) -> Sentence:
    """training 18,554.1 MiB (in optimizer); inference has but one phase."""
    phase = "" if what == ASKED["forward"] else " (in {Reached in})"
    return table.told(key, f"{what} {{Requested}} MiB{phase}")


def checkpoints(tables: Tables) -> Iterable[Sentence]:
    """Peaks of checkpointed steps, the lowest first."""
    table = tables.levels
    if table is None:
        return
    keys = [
        level_key(source, state, PEAK)
        for source, state in tables.memory
        if state.case.checkpoint is not None
    ]
    known = [key for key in keys if table.known(key, "Requested")]
    known.sort(key=lambda key: number(table.quote(key, "Requested")))
    for at, key in enumerate(known):
        yield table.told(
            key,
            "{Size}, {Variant} {work}: peak of {Requested} MiB requested{end}.",
            work=work_of(table, key, "Variant"),
            end="" if at else ", the lowest",
        )


def tensors(tables: Tables) -> Iterable[Sentence]:
    """Sizes of single tensors."""
    table = tables.tensors
    for at, key in enumerate(table.keys if table else ()):
        assert table is not None
        yield table.told(
            key,
            "{Tensor}{place}: {Each} MiB{formula}.",
            place=() if at else table.told(key, " of {Size} ({Context} tokens, batch {Batch})"),
            formula=_formula(table.quote(key, "Formula")),
        )


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
