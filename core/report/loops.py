"""Tables of a tracked training loop, and its rows for other programs."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterable, Sequence
from itertools import count, pairwise
from typing import Any

import msgspec

from llmprof.core.events.loop import PARTS, LoopOutOfMemory
from llmprof.core.figures.loops import NEWEST_NS, failures, parts, steps_per_s, straggler
from llmprof.core.figures.part_words import part_words, place_words
from llmprof.core.memory.refusals import says_out_of_memory
from llmprof.core.report.csv_cells import csv_cell
from llmprof.core.report.loop_words import last_seen
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.state.loops import LoopState
from llmprof.core.state.view import RunView
from llmprof.core.system.numbers import significant
from llmprof.core.system.units import MIB

LONG_FIRST_S = 1.0
LONG_FIRST_TIMES = 10  # the median step
PACE = f"Pace: over the last {NEWEST_NS // 10**9} s, all that lies between steps included."
ROW_COLUMNS = ("rank", "step", "steps", "epoch", "start_s", "wall_ms", "least_ms", "most_ms")


def loop_table(view: RunView) -> Table | None:
    """A row a rank: how many steps, at which pace, and how it ended.

    Own work has a column where there are several ranks, which wait for each other in backward.
    """
    if not view.loops:
        return None
    several = len(view.loops) > 1
    columns = (
        Column("Rank"),
        Column("Machine", numeric=False),
        Column("Steps"),
        Column("Epochs"),
        Column("Duration", "s"),
        Column("Pace", "steps/s"),
        Column("Step, median", "ms"),
        *((Column("Own work", "ms"),) if several else ()),
        Column("Updates skipped"),
        Column("llmprof's own", "µs/step"),
        Column("End", numeric=False),
    )
    rows = tuple(_rank(loop, going=view.going, several=several) for loop in view.loops)
    return Table("loop", "The training loop", columns, rows, tuple(_notes(view)))


def loop_parts(view: RunView) -> Table | None:
    """A row a part of a step, of each rank: they sum to the wall time."""
    on_device = any(loop.rows.device_parts for loop in view.loops)
    rows: list[tuple[Cell, ...]] = []
    skips = {loop.rank: 1 if len(loop.rows) > 2 else 0 for loop in view.loops}
    for loop in view.loops:
        for part in in_order(parts(loop, skips[loop.rank]), lambda each: each.name):
            rows.append(
                (
                    loop.rank,
                    part_words(part.name, apart=loop.started.model),
                    Figure(part.host_ms),
                    Figure(100 * part.share),
                    *((Figure(part.device_ms),) if on_device else ()),
                )
            )
    if not rows:
        return None
    columns = (
        Column("Rank"),
        Column("Part", numeric=False),
        Column("Host", "ms/step"),
        Column("Share", "%"),
        *((Column("Device", "ms/step"),) if on_device else ()),
    )
    which = "all steps but the first" if all(skips.values()) else "all steps, the first ones too"
    note = f"Means over {which}, by the host's clock; the parts sum to the wall."
    if on_device:
        note += " Device: the same stretches by the card's clock, of the steps that it timed."
    return Table("loop-parts", "Parts of a step", columns, tuple(rows), (note,))


def loop_values(view: RunView) -> Table | None:
    """A row a logged value, of the first rank that logged it."""
    rows: dict[str, tuple[Cell, ...]] = {}
    for loop in view.loops:
        for name in loop.rows.values:
            known = [value for value in loop.rows.value(name) if not math.isnan(value)]
            if known and name not in rows:
                figures = (known[0], known[-1], min(known), max(known))
                rows[name] = (name, loop.rank, len(known), *map(Figure, figures))
    if not rows:
        return None
    columns = (
        Column("Value", numeric=False),
        Column("Rank"),
        Column("Rows"),
        Column("First"),
        Column("Last"),
        Column("Least"),
        Column("Most"),
    )
    return Table("loop-values", "Logged values", columns, tuple(rows.values()))


def loop_out_of_memory(view: RunView) -> list[Table]:
    """A table a rank whose allocator had no room: what was asked, what it had given out."""
    return [_refused(loop, loop.out_of_memory) for loop in view.loops if loop.out_of_memory]


def _refused(loop: LoopState, found: LoopOutOfMemory) -> Table:
    columns = (Column("What", numeric=False), Column("Blocks"), Column("Size", "MiB"))
    read = (
        ("asked", found.bytes_asked),
        ("free on the card", found.free_bytes),
        ("the card has", found.total_bytes),
        ("allocated", found.allocated_bytes),
        ("allocated, most ever", found.peak_bytes),
        ("reserved by the allocator", found.reserved_bytes),
    )
    rows: list[tuple[Cell, ...]] = [
        (name, None, Figure(size / MIB, 0.1)) for name, size in read if size is not None
    ]
    rows += [
        (each.what, each.count, Figure(each.size * each.count / MIB, 0.1)) for each in found.largest
    ]
    where = part_words(found.part, apart=loop.started.model)
    ended = loop.done is not None and says_out_of_memory(loop.done.error)
    notes = [
        f"Rank {loop.rank} had no room in {where} at step {found.index + 1:,}"
        f"{', which ended it' if ended else ' and went on'}."
    ]
    if found.largest:
        notes.append(
            "The last rows are the largest blocks then, by the history that the script had the "
            "allocator keep; unknown ones are from before it."
        )
    elif found.allocated_bytes is not None:
        notes.append(
            "Which blocks these are is known where the script calls "
            "torch.cuda.memory._record_memory_history before its loop."
        )
    title = f"Out of memory: rank {loop.rank}"
    return Table(f"loop-out-of-memory-{loop.rank}", title, columns, tuple(rows), tuple(notes))


def in_order(found: Sequence[Any], name: Any) -> list[Any]:
    """Parts in the order of a step; the user's own before what comes after the optimizer."""
    last = PARTS.index("after")
    places = {part: (at if at < last else at + 1) for at, part in enumerate(PARTS)}
    return sorted(found, key=lambda each: places.get(name(each), last))


def loops_csv(view: RunView) -> str:
    """One row a row of the journal: a step, or the steps of a second."""
    names = _part_names(view)
    values = dict.fromkeys(name for loop in view.loops for name in loop.rows.values)
    device = [name for name in names if any(name in lo.rows.device_parts for lo in view.loops)]
    head = _unlike(ROW_COLUMNS, "phase_", [f"{name}_ms" for name in names])
    head = _unlike(head, "phase_", [f"{name}_device_ms" for name in device])
    head = _unlike(head, "logged_", values)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(csv_cell, head))
    for loop in view.loops:
        rows = loop.rows
        begun = loop.first_t
        columns: list[Sequence[object]] = [
            rows.index(),
            rows.count(),
            _epochs(loop),
            [round((t - begun) / 1e9, 6) for t in rows.start_ns()],
            *map(_rounded, (rows.wall_ms(), rows.least_ms(), rows.most_ms())),
            *(_rounded(rows.part_ms(name)) for name in names),
            *(_rounded(rows.device_ms(name)) for name in device),
            *([None if math.isnan(v) else v for v in rows.value(name)] for name in values),
        ]
        writer.writerows((loop.rank, *row) for row in zip(*columns, strict=True))
    return out.getvalue()


def _unlike(head: Sequence[str], prefix: str, more: Iterable[str]) -> list[str]:
    """Columns and more of them: a name of a script's own that is there already has a prefix."""
    out = list(head)
    for name in more:
        taken = next(at for at in count() if prefix * at + name not in out)
        out.append(prefix * taken + name)
    return out


def loop_document(loop: LoopState) -> dict[str, Any]:
    """A rank as JSON data: what it said of itself, and its rows in columns, milliseconds."""
    rows = loop.rows
    return {
        "rank": loop.rank,
        "started": msgspec.to_builtins(loop.started),
        "device": None if loop.device is None else msgspec.to_builtins(loop.device),
        "last_beat": None if loop.beat is None else msgspec.to_builtins(loop.beat),
        "out_of_memory": (
            None if loop.out_of_memory is None else msgspec.to_builtins(loop.out_of_memory)
        ),
        "end": None if loop.done is None else msgspec.to_builtins(loop.done),
        "rows": {
            "step": rows.index(),
            "steps": rows.count(),
            "epoch": _epochs(loop),
            "start_ns": rows.start_ns(),
            "wall_ms": _rounded(rows.wall_ms()),
            "least_ms": _rounded(rows.least_ms()),
            "most_ms": _rounded(rows.most_ms()),
            "parts_ms": {name: _rounded(rows.part_ms(name)) for name in rows.parts},
            "device_ms": {name: _rounded(rows.device_ms(name)) for name in rows.device_parts},
            "values": {
                name: [None if math.isnan(v) else v for v in rows.value(name)]
                for name in rows.values
            },
        },
    }


def _rank(loop: LoopState, *, going: bool, several: bool) -> tuple[Cell, ...]:
    rows, beat, done = loop.rows, loop.beat, loop.done
    end = rows.end_ns
    lasted = None if end is None else (end - loop.first_t) / 1e9
    betweens = rows.part_ms("between")
    own = [wall - out for wall, out in zip(rows.wall_ms(), betweens, strict=True)]
    backward = rows.part_ms("backward")
    working = [wall - waits for wall, waits in zip(own, backward, strict=True)]
    return (
        loop.rank,
        loop.started.node,
        loop.steps,
        len(rows.epochs) or None,
        Figure(lasted),
        Figure(steps_per_s(loop)),
        Figure(statistics.median(own) if own else None),
        *((Figure(statistics.median(working) if working else None),) if several else ()),
        None if beat is None else beat.updates_skipped,
        Figure(None if beat is None else beat.own_us),
        done.outcome if done is not None else "running" if going else "interrupted",
    )


def _notes(view: RunView) -> list[str]:
    known = any(steps_per_s(loop) is not None for loop in view.loops)
    notes = [f"{PACE} Step: without what lies between steps."] if known else []
    if len(view.loops) > 1:
        notes.append("Own work is a step without backward, in which ranks wait for each other.")
    slow = straggler(view.loops)
    if slow is not None:
        apart = view.loops[0].started.model
        notes.append(
            f"Rank {slow.rank} works {significant(slow.excess_ms)} ms longer a step than the "
            f"others, most of it in {part_words(slow.part, apart=apart)}."
        )
    failed = failures(view.loops)
    if len(failed) > 1:
        notes.append(f"Rank {failed[0].rank} failed first.")
    for loop in view.loops:
        notes += _long_first_step(loop)
        if loop.done is not None and loop.done.error:
            apart = loop.started.model
            where = f" {place_words(loop.done.part, apart=apart)}" if loop.done.part else ""
            notes.append(f"Rank {loop.rank} ended{where}: {loop.done.error}.")
        elif not view.going and (seen := last_seen(loop)):
            notes.append(f"Rank {loop.rank} was cut off; it had been {seen} when it last said so.")
        if loop.beat is not None and loop.beat.dropped:
            notes.append(f"Rank {loop.rank}: {loop.beat.dropped:,} steps could not be kept.")
    notes += [log.message for log in view.log if log.level != "info"][:5]
    return notes


def _long_first_step(loop: LoopState) -> list[str]:
    """What the first step took where that is out of all proportion, and what of it compiling."""
    walls = loop.rows.wall_ms()
    if len(walls) < 3 or loop.rows.count()[0] > 1:
        return []
    first_s = walls[0] / 1000
    if first_s < LONG_FIRST_S or walls[0] < LONG_FIRST_TIMES * statistics.median(walls):
        return []
    compiled_s = next((beat.compile_s for beat in loop.beats if beat.index), 0.0)
    compiling = f", {significant(compiled_s)} s of it in torch.compile" if compiled_s >= 1 else ""
    return [f"Rank {loop.rank}'s first step took {significant(first_s)} s{compiling}."]


def _part_names(view: RunView) -> list[str]:
    seen = dict.fromkeys(name for loop in view.loops for name in loop.rows.parts)
    return in_order(list(seen), str)


def _epochs(loop: LoopState) -> list[int | None]:
    out: list[int | None] = [None] * len(loop.rows)
    begins = [*loop.rows.epochs, (len(out), 0)]
    for (start, epoch), (end, _) in pairwise(begins):
        out[start:end] = [epoch] * (end - start)
    return out


def _rounded(values: Sequence[float]) -> list[float | None]:
    return [None if math.isnan(value) else round(value, 4) for value in values]
