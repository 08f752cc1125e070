"""The questions of a course's hand-out, in its order, answered from a run's cells.

A question that the runs cannot answer is named with the command that would measure it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass

from llmprof.core.catalog.experiments import load_experiments
from llmprof.core.document.changes import Change
from llmprof.core.document.configurations import switches_text, work_of
from llmprof.core.document.cost import NOT_STANDING
from llmprof.core.document.levels import PEAK, level_key
from llmprof.core.document.profiles import profile_key
from llmprof.core.document.quotes import KeyedTable, Quote, Sentence, number
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import step_key
from llmprof.core.document.tables import Tables, grid_key
from llmprof.core.document.warmups import warmup_key
from llmprof.core.events.kernel_rows import WHOLE_STEP
from llmprof.core.figures.profile_wholes import twin
from llmprof.core.figures.replicates import processes_of
from llmprof.core.kernels.attention_stages import AV, QK, SOFT
from llmprof.core.report.attention_kernels import kernel_groups, kernel_of
from llmprof.core.report.sentences import listing
from llmprof.core.spec.own_function import is_function
from llmprof.core.state.view import CaseState

Answer = Callable[[Tables], Iterable[Sentence]]
HALF = ("bf16", "fp16")
MOST_LINES = 8  # of one answer
LEFT_OUT: Sentence = ("Further lines are left out here; the whole tables below have every cell.",)
ATTENTION = "attention"
AGREES = 0.1  # two times that lie no further apart


@dataclass(frozen=True)
class Question:
    """What is asked, what answers it, and the experiment that measures it."""

    text: str
    answer: Answer
    experiment: str


@dataclass(frozen=True)
class Group:
    """Questions that belong together, and the tables that they read."""

    title: str
    questions: tuple[Question, ...]
    tables: tuple[str, ...]


def answered(question: Question, tables: Tables) -> list[Sentence]:
    """The lines of an answer; one that names the command where nothing was measured."""
    lines = [*question.answer(tables)]
    if lines:
        return lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], LEFT_OUT]
    if question.experiment in load_experiments():
        return [(f"Not measured: `llmprof run {question.experiment}` would.",)]
    return [("Not measured, and no experiment of this version measures it.",)]


def _phases(tables: Tables) -> Iterable[Sentence]:
    table = tables.steps
    for found in tables.step_cells if table else ():
        assert table is not None
        key = step_key(*found)
        parts = ("Forward", "Backward", "Optimizer")
        known = [name for name in parts if table.known(key, name)]
        missing = [name.lower() for name in parts if name not in known]
        if found[1].total is not None and known:
            yield (
                f"{found[1].case.model.name} ", *work_of(table, key), ": ",
                *_joined([(f"{name.lower()} ", table.quote(key, name), " ms") for name in known]),
                f"; {listing(missing)} not measured." if missing else ".",
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
            yield (f"{found[1].case.model.name} ", *work_of(table, key), ": ",
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
        yield (f"{group[0].case.model.name}, {group[0].case.mode} ",
               *work_of(table, keys[0], "Mode"), ": mean of ", *_joined(after),
               " steps of warm-up; the first step of the process took ",
               table.quote(keys[0], "First step"), " ms.")  # fmt: skip


def _agreement(tables: Tables) -> Iterable[Sentence]:
    table = tables.profiles
    for source, state in tables.profiled if table else ():
        assert table is not None
        key = profile_key(source, state, "forward")
        if not all(table.known(key, header) for header in ("Plain", "Profiled")):
            continue
        plain, profiled = (table.quote(key, name) for name in ("Plain", "Profiled"))
        busy: Sentence = ()
        if table.known(key, "GPU busy"):
            busy = (", of which kernels ran in ", table.quote(key, "GPU busy"), " ms")
        yield (f"{state.case.model.name}, {state.case.mode}, forward ",
               *work_of(table, key, "Mode"), ": ", plain, " ms plain, ", profiled,
               " ms under the profiler", *busy, agree(source, state, number(plain),
                                                     number(profiled)))  # fmt: skip


def agree(source: Source, state: CaseState, plain: float, profiled: float) -> str:
    """What the two times say of each other; nothing where a check says no to one of them."""
    alike = twin(source.subject.as_one, state)
    failed = source.subject.failed_checks(state, *(() if alike is None else (alike,)))
    if failed:
        return f": not compared, failed check {', '.join(failed)}."
    if not plain:
        return "."
    if abs(profiled / plain - 1) <= AGREES:
        return ": they agree."
    if profiled > plain:
        return ": the profiler makes it longer."
    return ": the plain step, in a process of its own, took longer."


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
            yield (f"{state.case.model.name}, {state.case.mode} ",
                   *work_of(table, keys[known[0]], "Mode"), ": ", *_joined(parts), end)  # fmt: skip


def _others(tables: Tables) -> Iterable[Sentence]:
    for (source, state), table in zip(tables.profiled, tables.classes, strict=False):
        header = next((c.header for c in table.table.columns if c.header.startswith("Of ")), "")
        names = [key for key in table.keys if key != "GEMM"][:3]
        parts: list[tuple[str | Quote, ...]] = [
            (f"{name} ", table.quote(name, header), " %") for name in names
        ]
        if parts:
            yield (f"{state.case.model.name}, {state.case.mode} ",
                   *_profiled_work(tables, source, state), ": ", *_joined(parts), ".")  # fmt: skip


def _profiled_work(tables: Tables, source: Source, state: CaseState) -> Sentence:
    table, key = tables.profiles, profile_key(source, state, WHOLE_STEP)
    return (
        work_of(table, key, "Mode") if table is not None and key in table.keys else ("(profiled)",)
    )


def _products(tables: Tables) -> Iterable[Sentence]:
    table = tables.profiles
    for source, state in tables.profiled if table else ():
        assert table is not None
        keys = [profile_key(source, state, part) for part in ("forward", "step")]
        if all(table.known(key, "Products of busy") for key in keys):
            yield (f"{state.case.model.name}, {state.case.mode} ",
                   *work_of(table, keys[0], "Mode"), ": ",
                   table.quote(keys[0], "Products of busy"), " % of the forward's busy time, ",
                   table.quote(keys[1], "Products of busy"), " % of the step's.")  # fmt: skip


def _softmax(tables: Tables) -> Iterable[Sentence]:
    for (source, state), table in tables.lenses:
        keys = [("forward", stage) for stage in (SOFT, QK, AV)]
        if all(table.known(key, "Of its operations") for key in keys):
            parts: list[tuple[str | Quote, ...]] = [
                (f"{stage} ", table.quote((way, stage), "Of its time"), " % of the time for ",
                 table.quote((way, stage), "Of its operations"), " % of the operations")
                for way, stage in keys
            ]  # fmt: skip
            yield (f"{state.case.model.name}, {state.case.mode}, forward ",
                   *_profiled_work(tables, source, state), ": ", *_joined(parts), ".")  # fmt: skip


def _changes(tables: Tables, wanted: Callable[[Change], bool]) -> Iterable[Sentence]:
    table = tables.changes
    for change in tables.all_changes if table else ():
        if not wanted(change):
            continue
        assert table is not None
        key = change.key(change.found.total)
        yield (f"{change.found.other.case.model.name}, {change.name} ",
               *work_of(table, key), ": ", table.quote(key, "With it"),
               " ms against ", table.quote(key, "Baseline"), " ms (",
               table.quote(key, "Verdict"), ").")  # fmt: skip


def _is_model(change: Change) -> bool:
    return change.found.other.case.probe != "attention"


def _mixed(tables: Tables) -> Iterable[Sentence]:
    measured = {each.name for each in tables.all_changes if _is_model(each)} & set(HALF)
    yield from _changes(tables, lambda each: _is_model(each) and each.name in HALF)
    for precision in HALF:
        if measured and precision not in measured:
            yield (f"Not measured: {precision}.",)


def _compiled_model(tables: Tables) -> Iterable[Sentence]:
    for grid in _grids(tables, "compile"):
        eager: Hashable = None
        for key in grid.keys:
            if grid.quote(key, "Verdict").text == "baseline":
                eager = key
            elif grid.known(key, "Speed-up"):
                yield _compiled(grid, key, eager)


def _compiled(grid: KeyedTable, key: Hashable, eager: Hashable) -> Sentence:
    """A step compiled and eager, what compiling took and when it is repaid, and the verdict."""

    def told(header: str, before: str, after: str) -> Sentence:
        return (before, grid.quote(key, header), after) if grid.known(key, header) else ()

    context = told("Context", " (", " tokens)")
    return (
        grid.quote(key, "Model Size"), ", ", grid.quote(key, "Mode"), *context,
        ", compiled (", grid.quote(key, "Compile"), "): a step takes ", grid.quote(key, "Step"),
        " ms against ", grid.quote(eager, "Step"), " ms eager, a speed-up of ",
        grid.quote(key, "Speed-up"), " ×; ",
        *told("Compile + first step", "compiling with the first step takes ", " s; "),
        *told("Steps until repaid", "steps until that is repaid: ", "; "),
        grid.quote(key, "Verdict"), ".",
    )  # fmt: skip


def _compiled_attention(tables: Tables) -> Iterable[Sentence]:
    return _changes(
        tables, lambda each: not _is_model(each) and each.found.other.case.compile is not None
    )


def _peaks(tables: Tables, ways: tuple[str, ...] = ("fp32",)) -> Iterable[Sentence]:
    table = tables.levels
    found = set()
    for source, state in tables.memory if table else ():
        assert table is not None
        key = level_key(source, state, PEAK)
        case = state.case
        if case.probe == "attention" or switches_text(case) not in ways:
            continue
        if case.mode in ("forward", "train") and table.known(key, "Requested"):
            found.add(case.mode)
            yield (f"{case.model.name}, {case.mode}, {case.precision} ",
                   *work_of(table, key, "Mode", "As"), ": peak of ",
                   table.quote(key, "Requested"), " MiB requested, reached in ",
                   table.quote(key, "Reached in"), ".")  # fmt: skip

    for mode, what in (("forward", "inference"), ("train", "a training step")):
        if found and mode not in found:
            yield (f"Not measured: {what}.",)


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
        yield (f"{state.case.model.name}, ", table.quote(key, "As"), " ",
               *work_of(table, key, "As"), ": peak of ",
               table.quote(key, "Requested"), " MiB requested",
               ", the lowest." if not at else ".")  # fmt: skip


def _mixed_peaks(tables: Tables) -> Iterable[Sentence]:
    return _peaks(tables, HALF)


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
        if growth.unit != "MiB":
            continue
        if growth.fit is None:
            unsound = growth.source.why_unsound(growth.states)
            why = f"{NOT_STANDING}: {unsound}" if unsound else "no one power describes it"
            yield (f"{growth.what}, {growth.way}: measured, but {why}.",)
        else:
            yield (f"{growth.what}, {growth.way}: the context to the power ",
                   table.quote(growth.key, "Exponent"), ", ",
                   table.quote(growth.key, "There"), " MiB at ",
                   table.quote(growth.key, "At most"), " tokens.")  # fmt: skip


def _grids(tables: Tables, name: str) -> list[KeyedTable]:
    """The tables of this name of the runs' own."""
    return [grid for grid in tables.grids if grid.table.key.split(" ")[0] == name]


def _types(tables: Tables) -> Iterable[Sentence]:
    """Which components have which type, a line for each half precision; each from one run."""
    lines: dict[str, Sentence] = {}
    for grid in _grids(tables, "data-types"):
        for column in grid.table.columns:
            if column.header in HALF and column.header not in lines:
                lines[column.header] = _types_in(grid, column.header)
    yield from lines.values()
    for precision in HALF if lines else ():
        if precision not in lines:
            yield (f"Not measured: {precision}.",)


def _types_in(grid: KeyedTable, precision: str) -> Sentence:
    found: dict[str, list[Hashable]] = {}
    for key in grid.keys:
        if grid.known(key, precision):
            found.setdefault(grid.quote(key, precision).text, []).append(key)
    parts: list[tuple[str | Quote, ...]] = [
        (grid.quote(keys[0], precision), " for ",
         *_joined([(grid.quote(key, "Component"),) for key in keys]))
        for keys in found.values()
    ]  # fmt: skip
    pieces: list[str | Quote] = [f"With autocast to {precision}: "]
    for at, part in enumerate(parts):
        pieces += ["; " if at else "", *part]
    return (*pieces, ".")


def _kernels(tables: Tables) -> Iterable[Sentence]:
    """At the longest context that ran: one's own kernels against the best of PyTorch's."""
    for source in tables.sources:
        groups = kernel_groups(source.subject.as_one)
        for number_, ((precision, width), states) in enumerate(groups.items()):
            key = grid_key("attention-kernels", source, number_)
            grid = next((each for each in tables.grids if each.table.key == key), None)
            if grid is not None:
                own = {kernel_of(each.case) for each in states if is_function(each.case.attention)}
                one = all(len(processes_of(each)) == 1 for each in states)
                yield from _best_kernels(grid, f"{width} in {precision}", own, one=one)


def _best_kernels(
    grid: KeyedTable, name: str, own: Collection[str], *, one: bool
) -> Iterable[Sentence]:
    ran = [key for key in grid.keys if grid.known(key, "Both")]
    if not ran:
        return
    longest = max(number(grid.quote(key, "Context")) for key in ran)
    there = [key for key in ran if number(grid.quote(key, "Context")) == longest]
    there.sort(key=lambda key: number(grid.quote(key, "Both")))
    mine = [key for key in there if grid.quote(key, "Kernel").text in own]
    others = [key for key in there if key not in mine]
    listed = [*(("your own ", key) for key in mine[:1]), *(("", key) for key in others[:1])]
    parts: list[tuple[str | Quote, ...]] = [
        (word, grid.quote(key, "Kernel"), " takes ", grid.quote(key, "Both"),
         " ms forward and backward",
         *((" (", grid.quote(key, "Over naive"), " × as fast as naive)")
           if grid.known(key, "Over naive") else ()))
        for word, key in listed
    ]  # fmt: skip
    end = "" if mine else "; the best of PyTorch's, and no kernel of one's own was measured there"
    yield (f"{name}, at ", grid.quote(there[0], "Context"), " tokens: ", *_joined(parts),
           end, " (one process: not judged)." if one else ".")  # fmt: skip


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
            Question("Which data type does each component have under autocast?", _types,
                     "precision"),
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
                     "checkpointing"),
        ),
        ("levels",),
    ),
    Group(
        "Attention",
        (
            Question("Where does the grid run out of memory?", _out_of_memory, "attention"),
            Question("How does what is kept for backward grow with context?", _kept, "attention"),
            Question("What does compiling attention bring?", _compiled_attention, "attention"),
            Question("What does compiling the whole model bring?", _compiled_model,
                     "compile"),
        ),
        ("growth",),
    ),
    Group(
        "Attention kernels",
        (Question("How does one's own kernel do beside PyTorch's?", _kernels,
                   "attention-kernels"),),
        (),
    ),
    Group(
        "Several cards",
        (Question("All-reduce, data parallel and sharded training?", _none, "all-reduce"),),
        (),
    ),
)  # fmt: skip
