"""Where the card's time goes, by the kernel profiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from llmprof.core.document.configurations import work_of
from llmprof.core.document.profiles import profile_key
from llmprof.core.document.quotes import KeyedTable, Sentence, joined, number
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import Found
from llmprof.core.document.tables import Tables
from llmprof.core.events.kernel_rows import WHOLE_STEP
from llmprof.core.figures.profile_wholes import twin
from llmprof.core.kernels.attention_stages import AV, QK, SCALE_MASK, SOFT
from llmprof.core.report.overhead import overhead_verdict
from llmprof.core.state.view import CaseState
from llmprof.core.stats.ratio import ratio

DECIDED = {  # by what the table of the profiler's cost says of a phase
    "slower": ": longer under the profiler.",
    "faster": ": the plain step, in a process of its own, took longer.",
    "not distinguished": ": not distinguished.",
}
LONGEST = "{Top kernel} ({Its calls} calls, {Its share of kernel time} %)"
STAGE = "{Stage} {Of the direction's time} and {Of the direction's operations}"
STAGES = SOFT, SCALE_MASK, QK, AV
MOST_OTHERS = 3, 2  # classes of the step, and of the forward alone


def agreement(tables: Tables) -> Iterable[Sentence]:
    """The forward plain and under the profiler."""
    for table, source, state in _profiles(tables):
        key = profile_key(source, state, "forward")
        if not table.knows(key, "Plain", "Profiled"):
            continue
        busy = table.known(key, "GPU busy")
        yield table.told(
            key,
            "{Size}, {Mode}, forward {work}: {Plain} ms plain, {Profiled} ms profiled{busy}{end}",
            work=work_of(table, key, "Mode"),
            busy=table.told(key, ", kernels busy {GPU busy} ms") if busy else "",
            end=agree(source, state),
        )


def agree(source: Source, state: CaseState) -> str:
    """What the forward's two times say of each other; nothing where a check says no to one."""
    alike = twin(source.subject.as_one, state)
    failed = source.subject.failed_checks(state, *(() if alike is None else (alike,)))
    if failed:
        return f": not compared, failed check {', '.join(failed)}."
    plain = None if alike is None else alike.summaries.get("forward")
    found = ratio(state.summaries.get("forward"), plain)
    return DECIDED.get(overhead_verdict(found), ".")


def longest(tables: Tables) -> Iterable[Sentence]:
    """The kernel with the most time in the forward and in the backward."""
    for table, source, state in _profiles(tables):
        keys = {part: profile_key(source, state, part) for part in ("forward", "backward")}
        known = {part: key for part, key in keys.items() if table.known(key, "Top kernel")}
        if not known:
            continue
        names = {table.quote(key, "Top kernel").text for key in known.values()}
        first = next(iter(known.values()))
        yield table.told(
            first,
            "{Size}, {Mode} {work}: {parts}{end}.",
            work=work_of(table, first, "Mode"),
            parts=joined(
                table.told(
                    key,
                    f"{part} {LONGEST}",
                )
                for part, key in known.items()
            ),
            end="" if len(known) < 2 else f": {'the same' if len(names) == 1 else 'not the same'}",
        )


def others(tables: Tables) -> Iterable[Sentence]:
    """The classes with the most time but for the matrix products, of the step and the forward."""
    of_step, of_forward = MOST_OTHERS
    for found, table in zip(tables.profiled, tables.classes, strict=False):
        header = next((c.header for c in table.table.columns if c.header.startswith("Of ")), "")
        names = [str(key) for key in table.keys if key != "GEMM"]
        if names:
            parts = joined(table.told(name, f"{name} {{{header}}} %") for name in names[:of_step])
            there = _most_forward(table, names)[:of_forward]
            times = joined(table.told(name, f"{name} {{forward}}") for name in there)
            forward: Sentence = ("; forward: ", *times, " ms") if there else ()
            yield (*_head(tables, found), ": ", *parts, *forward, ".")


def _most_forward(table: KeyedTable, names: Sequence[str]) -> list[str]:
    """Classes that have time in the forward, most first."""
    times = {name: number(table.quote(name, "forward")) for name in names
             if table.known(name, "forward")}  # fmt: skip
    return sorted((name for name in times if times[name] > 0), key=lambda name: -times[name])


def products(tables: Tables) -> Iterable[Sentence]:
    """The matrix products' share in the forward and in the step."""
    for table, source, state in _profiles(tables):
        forward, step = (profile_key(source, state, part) for part in ("forward", WHOLE_STEP))
        if all(table.known(key, "GEMM of busy") for key in (forward, step)):
            yield table.told(
                forward,
                "{Size}, {Mode} {work}: {GEMM of busy} % of the forward's busy time, {step} % "
                "of the step's.",
                work=work_of(table, forward, "Mode"),
                step=(table.quote(step, "GEMM of busy"),),
            )


def softmax(tables: Tables) -> Iterable[Sentence]:
    """Time beside operations of the stages of one layer's attention."""
    for found, table in tables.lenses:
        keys = [("forward", stage) for stage in STAGES]
        if all(table.known(key, "Of the direction's operations") for key in keys):
            parts = joined(table.told(key, STAGE) for key in keys)
            yield (
                *_head(tables, found, ", forward"),
                ", % of time and operations: ",
                *parts,
                ".",
            )


def _profiles(tables: Tables) -> Iterator[tuple[KeyedTable, Source, CaseState]]:
    if tables.profiles is not None:
        for source, state in tables.profiled:
            yield tables.profiles, source, state


def _head(tables: Tables, found: Found, what: str = "") -> Sentence:
    """small, train (512 tokens): a profiled case."""
    table, key, case = tables.profiles, profile_key(*found, WHOLE_STEP), found[1].case
    known = table is not None and key in table.keys
    work = work_of(table, key, "Mode") if table is not None and known else ("(profiled)",)
    return (f"{case.model.name}, {case.mode}{what} ", *work)
