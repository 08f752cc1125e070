"""The questions of a course's hand-out, in its order, answered from a run's cells.

A question that the runs cannot answer is named with the command that would measure it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from llmprof.core.catalog.experiments import load_experiments
from llmprof.core.document.changes import Change
from llmprof.core.document.configurations import switches_text
from llmprof.core.document.levels import PEAK, level_key
from llmprof.core.document.profiles import profile_key
from llmprof.core.document.quotes import KeyedTable, Quote, Sentence, number
from llmprof.core.document.steps import step_key
from llmprof.core.document.tables import Tables
from llmprof.core.document.warmups import warmup_key
from llmprof.core.kernels.attention_stages import AV, QK, SOFT

Answer = Callable[[Tables], Iterable[Sentence]]
MOST_LINES = 8  # of one answer
ATTENTION = "attention"
AGREES = 0.1  # two times that lie no further apart


@dataclass(frozen=True)
class Question:
    """What is asked, what answers it, and the experiment that measures it.

    grid: the table of the runs' own that answers it as it is, where `answer` has nothing.
    """

    text: str
    answer: Answer
    experiment: str
    grid: str = ""


@dataclass(frozen=True)
class Group:
    """Questions that belong together, and the tables that they read."""

    title: str
    questions: tuple[Question, ...]
    tables: tuple[str, ...]


def answered(question: Question, tables: Tables) -> list[Sentence]:
    """The lines of an answer; one that names the command where nothing was measured."""
    lines = [*question.answer(tables)] or [*_rows_of(tables, question.grid)]
    lines = lines[:MOST_LINES]
    if lines:
        return lines
    if question.experiment in load_experiments():
        return [(f"Not measured: `llmprof run {question.experiment}` would.",)]
    return [("Not measured, and no experiment of this version measures it.",)]


def _phases(tables: Tables) -> Iterable[Sentence]:
    table = tables.steps
    for found in tables.step_cells if table else ():
        assert table is not None
        key = step_key(*found)
        known = [name for name in ("Forward", "Backward", "Optimizer") if table.known(key, name)]
        if found[1].total is not None and known:
            yield (
                f"{found[1].case.model.name} (", table.quote(key, "Context"), " tokens): ",
                *_joined([(f"{name.lower()} ", table.quote(key, name), " ms") for name in known]),
                ".",
            )  # fmt: skip


def _joined(parts: list[tuple[str | Quote, ...]]) -> Iterable[str | Quote]:
    for at, part in enumerate(parts):
        if at:
            yield ", "
        yield from part


def _spread(tables: Tables) -> Iterable[Sentence]:
    table = tables.steps
    for found in tables.step_cells if table else ():
        assert table is not None
        key = step_key(*found)
        if table.known(key, "CV") and found[1].total is not None:
            yield (f"{found[1].case.model.name} (", table.quote(key, "Context"), " tokens): ",
                   table.quote(key, "CV"), " % of the mean of ", table.quote(key, "Step"),
                   " ms.")  # fmt: skip


def _warm(tables: Tables) -> Iterable[Sentence]:
    table = tables.warmups
    for source, group in tables.warmup_cells if table else ():
        assert table is not None
        keys = [warmup_key(source, state) for state in group]
        after: list[tuple[str | Quote, ...]] = [
            (table.quote(key, "Mean"), " ms after ", table.quote(key, "Warm-up")) for key in keys
        ]
        yield (f"{group[0].case.model.name}, {group[0].case.mode}: mean of ", *_joined(after),
               " steps of warm-up; the first step of the process took ",
               table.quote(keys[0], "First step"), " ms.")  # fmt: skip


def _agreement(tables: Tables) -> Iterable[Sentence]:
    def told(table: KeyedTable, key: Hashable) -> Sentence:
        plain, profiled = (table.quote(key, name) for name in ("Plain", "Profiled"))
        alike = abs(number(profiled) / number(plain) - 1) <= AGREES if number(plain) else False
        busy: Sentence = ()
        if table.known(key, "GPU busy"):
            busy = (", of which kernels ran in ", table.quote(key, "GPU busy"), " ms")
        verdict = ": they agree." if alike else ": the profiler makes it longer."
        return (plain, " ms plain, ", profiled, " ms under the profiler", *busy, verdict)

    yield from _of_profiles(tables, "forward", told, ("Plain", "Profiled"))


def _longest(tables: Tables) -> Iterable[Sentence]:
    table = tables.profiles
    for source, state in tables.profiled if table else ():
        assert table is not None
        keys = {part: profile_key(source, state, part) for part in ("forward", "backward")}
        known = [part for part, key in keys.items() if table.known(key, "Longest kernel")]
        names = {table.quote(keys[part], "Longest kernel").text for part in known}
        parts: list[tuple[str | Quote, ...]] = [
            (f"{part} ", table.quote(keys[part], "Longest kernel"), " (",
             table.quote(keys[part], "Calls"), " calls, ",
             table.quote(keys[part], "Of its time"), " % of its time)")
            for part in known
        ]  # fmt: skip
        same = "the same one." if len(names) == 1 else "not the same one."
        end = f": {same}" if len(known) > 1 else "."
        if known:
            yield (f"{state.case.model.name}, {state.case.mode}: ", *_joined(parts), end)


def _of_profiles(
    tables: Tables,
    part: str,
    said: Callable[[KeyedTable, Hashable], Sentence],
    needed: tuple[str, ...],
) -> Iterable[Sentence]:
    table = tables.profiles
    for source, state in tables.profiled if table else ():
        assert table is not None
        key = profile_key(source, state, part)
        if all(table.known(key, header) for header in needed):
            yield (f"{state.case.model.name}, {state.case.mode}, {part} (",
                   table.quote(key, "Context"), " tokens): ", *said(table, key))  # fmt: skip


def _others(tables: Tables) -> Iterable[Sentence]:
    for (_, state), table in zip(tables.profiled, tables.classes, strict=False):
        header = next((c.header for c in table.table.columns if c.header.startswith("Of ")), "")
        names = [key for key in table.keys if key != "GEMM"][:3]
        parts: list[tuple[str | Quote, ...]] = [
            (f"{name} ", table.quote(name, header), " %") for name in names
        ]
        if parts:
            yield (f"{state.case.model.name}, {state.case.mode}: ", *_joined(parts), ".")


def _products(tables: Tables) -> Iterable[Sentence]:
    table = tables.profiles
    for source, state in tables.profiled if table else ():
        assert table is not None
        keys = [profile_key(source, state, part) for part in ("forward", "step")]
        if all(table.known(key, "Products of busy") for key in keys):
            yield (f"{state.case.model.name}, {state.case.mode}: ",
                   table.quote(keys[0], "Products of busy"), " % of the forward's busy time, ",
                   table.quote(keys[1], "Products of busy"), " % of the step's.")  # fmt: skip


def _softmax(tables: Tables) -> Iterable[Sentence]:
    for (_, state), table in tables.lenses:
        keys = [("forward", stage) for stage in (SOFT, QK, AV)]
        if all(table.known(key, "Of its operations") for key in keys):
            parts: list[tuple[str | Quote, ...]] = [
                (f"{stage} ", table.quote((way, stage), "Of its time"), " % of the time for ",
                 table.quote((way, stage), "Of its operations"), " % of the operations")
                for way, stage in keys
            ]  # fmt: skip
            yield (f"{state.case.model.name}, {state.case.mode}, forward: ", *_joined(parts), ".")


def _changes(tables: Tables, wanted: Callable[[Change], bool]) -> Iterable[Sentence]:
    table = tables.changes
    for change in tables.all_changes if table else ():
        if not wanted(change):
            continue
        assert table is not None
        key = change.key(change.found.total)
        yield (f"{change.found.other.case.model.name}, {change.name} (",
               table.quote(key, "Context"), " tokens): ", table.quote(key, "With it"),
               " ms against ", table.quote(key, "Baseline"), " ms (",
               table.quote(key, "Verdict"), ").")  # fmt: skip


def _is_model(change: Change) -> bool:
    return change.found.other.case.probe != "attention"


def _mixed(tables: Tables) -> Iterable[Sentence]:
    return _changes(tables, lambda each: _is_model(each) and each.name in ("bf16", "fp16"))


def _compiled_model(tables: Tables) -> Iterable[Sentence]:
    return _changes(tables, lambda each: _is_model(each) and each.name.startswith("torch.compile"))


def _compiled_attention(tables: Tables) -> Iterable[Sentence]:
    return _changes(
        tables, lambda each: not _is_model(each) and each.found.other.case.compile is not None
    )


def _peaks(tables: Tables, ways: tuple[str, ...] = ("fp32",)) -> Iterable[Sentence]:
    table = tables.levels
    for source, state in tables.memory if table else ():
        assert table is not None
        key = level_key(source, state, PEAK)
        case = state.case
        if case.probe == "attention" or switches_text(case) not in ways:
            continue
        if case.mode in ("forward", "train") and table.known(key, "Requested"):
            yield (f"{case.model.name}, {case.mode}, {case.precision} (",
                   table.quote(key, "Context"), " tokens): peak of ",
                   table.quote(key, "Requested"), " MiB requested, reached in ",
                   table.quote(key, "Reached in"), ".")  # fmt: skip


def _checkpoints(tables: Tables) -> Iterable[Sentence]:
    """Peaks of checkpointed steps, the lowest first."""
    table = tables.levels
    if table is None:
        return
    found = [
        (number(table.quote(level_key(source, state, PEAK), "Requested")), source, state)
        for source, state in tables.memory
        if state.case.checkpoint is not None
        and table.known(level_key(source, state, PEAK), "Requested")
    ]
    for at, (_, source, state) in enumerate(sorted(found, key=lambda each: each[0])):
        key = level_key(source, state, PEAK)
        yield (f"{state.case.model.name}, ", table.quote(key, "As"), " (",
               table.quote(key, "Context"), " tokens): peak of ",
               table.quote(key, "Requested"), " MiB requested",
               ", the lowest." if not at else ".")  # fmt: skip


def _mixed_peaks(tables: Tables) -> Iterable[Sentence]:
    return _peaks(tables, ("bf16", "fp16"))


def _tensors(tables: Tables) -> Iterable[Sentence]:
    for key in tables.tensors.keys if tables.tensors else ():
        assert tables.tensors is not None
        yield (tables.tensors.quote(key, "Tensor"), " of ", tables.tensors.quote(key, "Size"),
               ": ", tables.tensors.quote(key, "Each"), " MiB, ",
               tables.tensors.quote(key, "Formula"), ".")  # fmt: skip


def _largest(tables: Tables) -> Iterable[Sentence]:
    table = tables.largest
    for key in table.keys if table else ():
        assert table is not None
        yield (table.quote(key, "Blocks"), " × ", table.quote(key, "Each"), " MiB, ",
               table.quote(key, "Category"), ", from ", table.quote(key, "What"), ".")  # fmt: skip


def _out_of_memory(tables: Tables) -> Iterable[Sentence]:
    """Of attention alone: what did not fit, or how far it went without that."""
    table, grown = tables.out_of_memory_table, tables.growth
    keys = (
        [key for key in table.keys if table.quote(key, "Mode").text == ATTENTION] if table else []
    )
    for key in keys:
        assert table is not None
        yield (table.quote(key, "Size"), ", ", table.quote(key, "As"), " (",
               table.quote(key, "Context"), " tokens): out of memory in ",
               table.quote(key, "Failed in"), ".")  # fmt: skip
    attention = [each for each in tables.growths if each.what.startswith(ATTENTION)]
    if not keys and attention and grown is not None:
        yield ("Nowhere, up to ", grown.quote(attention[-1].key, "At most"), " tokens.")


def _kept(tables: Tables) -> Iterable[Sentence]:
    table = tables.growth
    for growth in tables.growths if table else ():
        assert table is not None
        if growth.unit == "MiB" and growth.fit is not None:
            yield (f"{growth.what}, {growth.way}: the context to the power ",
                   table.quote(growth.key, "Exponent"), ", ",
                   table.quote(growth.key, "There"), " MiB at ",
                   table.quote(growth.key, "At most"), " tokens.")  # fmt: skip


def _rows_of(tables: Tables, name: str) -> Iterable[Sentence]:
    """The rows of a grid as they are, column by column."""
    for grid in tables.grids:
        if name and grid.table.key.split(" ")[0] == name:
            for key in grid.keys:
                cells: list[tuple[str | Quote, ...]] = [
                    (f"{column.heading} ", grid.quote(key, column.heading))
                    for column in grid.table.columns
                    if grid.known(key, column.heading)
                ]
                yield (*_joined(cells), ".")


def _none(tables: Tables) -> Iterable[Sentence]:
    return ()


GROUPS: tuple[Group, ...] = (
    Group(
        "Timing",
        (
            Question("How long are forward, backward and optimizer step of each size?", _phases,
                     "end-to-end"),
            Question("How much do they vary?", _spread, "end-to-end"),
            Question("What changes without warm-up, and with little of it?", _warm, "warmup"),
        ),
        ("steps", "warm-up"),
    ),
    Group(
        "Kernel profile",
        (
            Question("Does the forward's total agree with the plain timing?", _agreement,
                     "kernels"),
            Question("Which kernel has the most GPU time, and is it the same in both directions?",
                     _longest, "kernels"),
            Question("Which kernels other than matrix products matter?", _others, "kernels"),
            Question("How does the products' share change from inference to training?", _products,
                     "kernels"),
            Question("Softmax against products in attention: time beside operations?", _softmax,
                     "kernels"),
        ),
        ("profiles",),
    ),
    Group(
        "Mixed precision",
        (
            Question("Which data type does each component have under autocast?", _none,
                     "precision", "data-types"),
            Question("What are the times with and without, and the trend?", _mixed, "precision"),
        ),
        ("changes",),
    ),
    Group(
        "Memory",
        (
            Question("What are the peaks of inference and of a training step?", _peaks, "memory"),
            Question("And with mixed precision?", _mixed_peaks, "memory"),
            Question("How large is a tensor of the residual stream, and others?", _tensors,
                     "end-to-end"),
            Question("Which allocations are the largest, and where are they from?", _largest,
                     "memory"),
            Question("Which checkpointing block is best, and how do its neighbours do?",
                     _checkpoints,
                     "checkpointing", "checkpointing"),
        ),
        ("levels",),
    ),
    Group(
        "Attention",
        (
            Question("Where does the grid run out of memory?", _out_of_memory, "attention"),
            Question("How does what is kept for backward grow with context?", _kept, "attention"),
            Question("What does compiling attention bring?", _compiled_attention, "attention"),
            Question("What does compiling the whole model bring?", _compiled_model, "compile",
                     "compile"),
        ),
        ("growth",),
    ),
    Group(
        "Attention kernels",
        (Question("How does one's own kernel do beside PyTorch's?", _none,
                   "attention-kernels", "attention-kernels"),),
        (),
    ),
    Group(
        "Several cards",
        (Question("All-reduce, data parallel and sharded training?", _none, "all-reduce"),),
        (),
    ),
)  # fmt: skip
