"""Two tracked loops side by side: pace, parts, memory, and logged values over the steps."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from llmprof.core.figures.loops import Part, parts
from llmprof.core.figures.part_words import part_words
from llmprof.core.report.exports import table_document
from llmprof.core.report.formats import Format
from llmprof.core.report.long_csv import to_cells
from llmprof.core.report.loops import in_order
from llmprof.core.report.markdown_table import escape, section
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.state.loops import LoopState
from llmprof.core.state.view import RunView
from llmprof.core.system.units import MIB

SCHEMA = 1
WARM_STEPS = 10  # at most, that count in neither run
MOST_POINTS = 10  # of a logged value
STATES = {"running": "still runs", "failed": "failed"}
SINGLE = (
    "One run each: what differs is shown and not judged, for two runs of equal code differ too."
)


@dataclass(frozen=True)
class LoopComparison:
    """Two runs that have loops, with the names under which they are compared."""

    base: RunView
    other: RunView
    base_name: str
    other_name: str

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """All tables that have something to say; of several ranks the first stands for all."""
        pair = self.base.loops[0], self.other.loops[0]
        found = (_figures(*pair, self._notes), _parts(*pair), *_values(*pair))
        return tuple(table for table in found if table is not None)

    @property
    def _notes(self) -> tuple[str, ...]:
        notes = [SINGLE, "The first steps of both, which warm up, do not count."]
        counts = len(self.base.loops), len(self.other.loops)
        if counts != (1, 1):
            notes.append(f"A has {counts[0]} ranks, B {counts[1]}: their first ones are compared.")
        for name, view in (("A", self.base), ("B", self.other)):
            state = view.state_words
            if state != "complete":
                words = STATES.get(state, f"was {state}")
                notes.append(f"{name} {words}: its figures are of the steps that it did.")
        return tuple(notes)


def render(found: LoopComparison, fmt: Format) -> str:
    """The comparison in a format."""
    if fmt == "csv":
        return to_cells(found.tables)
    if fmt == "json":
        document = {
            "schema": SCHEMA,
            "A": {"name": found.base_name, "run": found.base.run_id},
            "B": {"name": found.other_name, "run": found.other.run_id},
            "tables": [table_document(table) for table in found.tables],
        }
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    title = f"# llmprof: {escape(found.base_name)} and {escape(found.other_name)} compared"
    return "\n\n".join([title, *map(section, found.tables)]) + "\n"


def _figures(base: LoopState, other: LoopState, notes: tuple[str, ...]) -> Table:
    """A row a figure of the whole loop."""
    rows: list[tuple[Cell, ...]] = []
    rows.append(("Steps", "", base.steps, other.steps, _change(base.steps, other.steps)))
    for name, unit, figure in FIGURES:
        before, after = figure(base), figure(other)
        if before is not None or after is not None:
            rows.append((name, unit, Figure(before), Figure(after), _change(before, after)))
    columns = (
        Column("Figure", numeric=False),
        Column("Unit", numeric=False),
        Column("A"),
        Column("B"),
        Column("Change", "%"),
    )
    title = "The two loops, from A to B"
    return Table("loops-compared", title, columns, tuple(rows), notes)


def _parts(base: LoopState, other: LoopState) -> Table | None:
    """A row a part of a step."""
    before, after = _times(base), _times(other)
    apart = base.started.model and other.started.model
    if not apart:  # one of them has forward and loss as one part, and so both have
        before, after = _together(before), _together(after)
    names = in_order(list(dict.fromkeys([*before, *after])), str)
    rows: list[tuple[Cell, ...]] = []
    for name in names:
        pair = [found.get(name, 0.0) for found in (before, after)]
        rows.append(
            (
                part_words(name, apart=apart),
                Figure(pair[0]),
                Figure(pair[1]),
                Figure(pair[1] - pair[0]),
                _change(*pair),
            )
        )
    if not rows or not before or not after:
        return None
    columns = (
        Column("Part", numeric=False),
        Column("A", "ms/step"),
        Column("B", "ms/step"),
        Column("Difference", "ms/step"),
        Column("Change", "%"),
    )
    note = (
        "From A to B: below 0, B is lower. Means a step by the host's clock; a part that one "
        "loop lacks, 0 here, is time that it does not have or has in its other parts."
    )
    return Table("loop-parts-compared", "Parts of a step", columns, tuple(rows), (note,))


def _values(base: LoopState, other: LoopState) -> list[Table]:
    """A table a value that both logged: its means over stretches of the same steps."""
    tables = []
    for name in base.rows.values:
        if name not in other.rows.values:
            continue
        before, after = _logged(base, name), _logged(other, name)
        last = min(max(before, default=-1), max(after, default=-1))
        first = max(min(before, default=0), min(after, default=0))
        rows: list[tuple[Cell, ...]] = []
        for start, end in _stretches(first, last):
            means = [_mean(found, start, end) for found in (before, after)]
            if None in means:
                continue
            difference = (means[1] or 0.0) - (means[0] or 0.0)
            rows.append((f"{start:,}–{end:,}", *map(Figure, means), Figure(difference)))
        if rows:
            columns = (Column("Steps", numeric=False), Column("A"), Column("B"), Column("B less A"))
            title = f"{name} over the steps"
            tables.append(Table(f"loop-{name}-compared", title, columns, tuple(rows)))
    return tables


def _stretches(first: int, last: int) -> list[tuple[int, int]]:
    """Steps from first to last in at most so many stretches of equal length."""
    if last < first:
        return []
    length = -(-(last - first + 1) // MOST_POINTS)
    return [(at, min(last, at + length - 1)) for at in range(first, last + 1, length)]


def _logged(loop: LoopState, name: str) -> dict[int, float]:
    """What was logged at a step; of steps that a restart made again, the newest."""
    pairs = zip(loop.rows.index(), loop.rows.value(name), strict=True)
    return {index: value for index, value in pairs if not math.isnan(value)}


def _mean(found: dict[int, float], start: int, end: int) -> float | None:
    known = [value for index, value in found.items() if start <= index <= end]
    return statistics.fmean(known) if known else None


def _warm(loop: LoopState) -> int:
    return min(WARM_STEPS, max(1, len(loop.rows) // 5)) if len(loop.rows) > 1 else 0


def _settled(loop: LoopState) -> dict[str, Part]:
    return {part.name: part for part in parts(loop, _warm(loop))}


def _times(loop: LoopState) -> dict[str, float]:
    return {name: part.host_ms for name, part in _settled(loop).items()}


def _together(times: dict[str, float]) -> dict[str, float]:
    """Forward and loss as one part."""
    rest = {name: ms for name, ms in times.items() if name != "loss"}
    if "loss" in times:
        rest["forward"] = rest.get("forward", 0.0) + times["loss"]
    return rest


def _pace(loop: LoopState) -> float | None:
    wall = sum(part.host_ms for part in _settled(loop).values())
    return 1000 / wall if wall else None


def _median(loop: LoopState) -> float | None:
    start = _warm(loop)
    walls = loop.rows.wall_ms(start)
    own = [wall - out for wall, out in zip(walls, loop.rows.part_ms("between", start), strict=True)]
    return statistics.median(own) if own else None


def _own(loop: LoopState) -> float | None:
    return None if loop.beat is None else loop.beat.own_us


def _most(name: str) -> Callable[[LoopState], float | None]:
    """The highest reading of a figure of bytes, MiB."""

    def read(loop: LoopState) -> float | None:
        beats = loop.beats if loop.beat is None else (*loop.beats, loop.beat)
        known = [value for beat in beats if (value := getattr(beat, name)) is not None]
        return max(known) / MIB if known else None

    return read


def _change(before: float | None, after: float | None) -> Figure:
    """Per cent by which the second is more than the first."""
    if before is None or after is None or not before:
        return Figure(None)
    return Figure(100 * (after / before - 1))


FIGURES: Sequence[tuple[str, str, Callable[[LoopState], float | None]]] = (
    ("Pace", "steps/s", _pace),
    ("Step, median", "ms", _median),
    ("Peak allocated", "MiB", _most("peak_bytes")),
    ("Reserved, most", "MiB", _most("reserved_bytes")),
    ("Process memory, most", "MiB", _most("rss_bytes")),
    ("llmprof's own", "µs/step", _own),
)
