"""Two runs as tables: what is different, what changed by phase, kernels and memory with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from llmprof.core.figures.comparison import Comparison, PartChange
from llmprof.core.figures.replicates import processes_of
from llmprof.core.report.case_groups import AXIS_COLUMNS, axis_value, status_word
from llmprof.core.report.class_changes import ByClass, by_class
from llmprof.core.report.comparisons import unclear
from llmprof.core.report.run_comparison_words import (
    change_figure,
    counts,
    one_sided,
    part_name,
    percents,
    said_of,
    verdict,
)
from llmprof.core.report.sentences import peak_bytes
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.report.two_runs import Pair, TwoRuns, began
from llmprof.core.spec.axes import varying
from llmprof.core.state.launch_bound import NEGLIGIBLE
from llmprof.core.state.view import CaseState
from llmprof.core.stats.summary import Summary
from llmprof.core.system.units import MIB

SAME = "~"
FROM_A_TO_B = "Every change and difference is from A to B: below 0, B is lower."
JUDGED = (
    "~ says that A and B are not distinguished. A change is judged between fresh processes, which "
    "are the unit of replication, by their geometric means: the cases are tested "
    "together, then the phases of a case that is told from equal (Holm, 5 % each time), and the "
    "step where one of them was; a change counts from 1 % on. The 95 % interval stands beside "
    "every change, also beside one that is not told from equal among the others. Phases below 2 % "
    "of both steps are left out."
)
ALONE = (
    "One process in at least one of the runs: not judged, for steps of one process say nothing of "
    "what another would measure (--processes 3 measures what judges them)."
)
FORCED = "Forced: {}. What differs may be due to that alone."


@dataclass(frozen=True)
class RunComparison:
    """Two runs with the names under which they are compared."""

    runs: TwoRuns
    base_name: str
    other_name: str

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """All tables that have something to say, in the order in which they are read."""
        found = (
            self._differences(),
            self._changes(),
            self._kernels(),
            self._peaks(),
            self._categories(),
            self._unanswered(),
        )
        return tuple(table for table in found if table is not None)

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """What may be said, from the same decisions as the rows."""
        lines = [line for found in self.runs.comparisons for line in self.said_of(found)]
        lines += [f"{pair.base.case.label}: {one_sided(pair)}." for pair in self.runs.one_sided]
        judged = [found for found in self.runs.comparisons if found.judged]
        if judged and not any(found.changed("faster", "slower") for found in judged):
            lines.append("Nothing is told from equal.")
        return tuple(lines)

    def _differences(self) -> Table:
        rows: list[tuple[Cell, ...]] = [
            (each.what, each.base, each.other) for each in self.runs.differences
        ]
        if self.runs.paces is not None:
            rows.append(("Host pace", *self.runs.paces))
        rows.append(("Measured", began(self.runs.base), began(self.runs.other)))
        columns = (
            Column("What", numeric=False),
            Column("A", numeric=False),
            Column("B", numeric=False),
        )
        same = _alike(self.runs)
        notes = (
            f"A: {self.base_name}. B: {self.other_name}. {FROM_A_TO_B}",
            *([f"Alike in both: {same}."] if same else []),
            *(FORCED.format(why) for why in self.runs.obstacles),
        )
        return Table("differences", "What is different", columns, tuple(rows), notes)

    def _changes(self) -> Table:
        head = _Head([(found.base, found.other) for found in self.runs.comparisons])
        counted = dict.fromkeys(map(_counted, self.runs.comparisons))
        columns = (
            *head.columns,
            Column("Part of the step", numeric=False),
            Column("A", "ms"),
            Column("A 95 %", "± %"),
            Column("B", "ms"),
            Column("B 95 %", "± %"),
            Column("Change", "%"),
            Column("95 % interval", "%", numeric=False),
            Column("Verdict", numeric=False),
            *((Column("Counted", numeric=False),) if len(counted) > 1 else ()),
        )
        rows = tuple(
            (
                *head.cells(found.base),
                *self._cells(part, found),
                *((_counted(found),) if len(counted) > 1 else ()),
            )
            for found in self.runs.comparisons
            for part in found.parts
            if counts(part, found)
        )
        judged = any(found.processes > 1 for found in self.runs.comparisons)
        notes = (
            *self.sentences,
            *([f"Counted: {next(iter(counted))} of either run, in every row."]
              if len(counted) == 1 else []),
            *([JUDGED if judged else ALONE] if rows else []),
        )  # fmt: skip
        return Table("changes", f"Step by phase, from A to B{head.title}", columns, rows, notes)

    def _cells(self, part: PartChange, found: Comparison) -> tuple[Cell, ...]:
        return (
            part_name(part),
            Figure(part.base.mean, part.base.ci95),
            _relative(part.base),
            Figure(part.other.mean, part.other.ci95),
            _relative(part.other),
            _change_cell(part),
            percents(part.time) if part.time.judged else "one process",
            verdict(part, found),
        )

    def _kernels(self) -> Table | None:
        rows: list[tuple[Cell, ...]] = []
        head = _Head([(pair.base, pair.other) for pair in self.runs.profiles])
        for pair in self.runs.profiles:
            before, after = by_class(pair.base), by_class(pair.other)
            least = NEGLIGIBLE * max(math.fsum(before.values()), math.fsum(after.values()))
            for key in sorted({*before, *after}, key=lambda key: _order(key, before, after)):
                one, other = before.get(key, 0.0), after.get(key, 0.0)
                if max(one, other) >= least:
                    rows.append((*head.cells(pair.base), *key, *_pair_cells(one, other)))
        if not rows:
            return None
        columns = (
            *head.columns,
            Column("Phase", numeric=False),
            Column("Class", numeric=False),
            Column("A", "ms"),
            Column("B", "ms"),
            Column("Difference", "ms"),
            Column("Difference", "%"),
        )
        notes = (
            "Device time of one step by class of kernel, from one profile a run: shown, not judged."
            " Classes below 2 % of a step are left out.",
        )
        title = f"Kernel time by class, from A to B{head.title}"
        return Table("kernel-classes", title, columns, tuple(rows), notes)

    def _peaks(self) -> Table | None:
        head = _Head([(pair.base, pair.other) for pair in self.runs.pairs])
        rows = [
            (*head.cells(pair.base), source, *_pair_cells(one / MIB, other / MIB))
            for pair in self.runs.pairs
            if (one := peak_bytes(pair.base))
            and (other := peak_bytes(pair.other))
            and (source := _source(pair))
        ]
        if not rows:
            return None
        columns = (
            *head.columns,
            Column("Counted by", numeric=False),
            Column("A", "MiB"),
            Column("B", "MiB"),
            Column("Difference", "MiB"),
            Column("Difference", "%"),
        )
        notes = (
            "The highest level of one extra step of one process, allocated bytes of the allocator "
            "or the process's resident set.",
        )
        return Table("peaks", f"Peak memory, from A to B{head.title}", columns, tuple(rows), notes)

    def _categories(self) -> Table | None:
        head = _Head([(pair.base, pair.other) for pair in self.runs.recordings])
        rows: list[tuple[Cell, ...]] = []
        for pair in self.runs.recordings:
            one, other = pair.base.memory_timeline, pair.other.memory_timeline
            if one is None or other is None or one.source != other.source:
                continue
            for name in dict.fromkeys((*one.at_peak, *other.at_peak)):
                before, after = one.at_peak.get(name, 0), other.at_peak.get(name, 0)
                if before or after:
                    cells = _pair_cells(before / MIB, after / MIB)
                    rows.append((*head.cells(pair.base), name, *cells))
        if not rows:
            return None
        columns = (
            *head.columns,
            Column("Category", numeric=False),
            Column("A", "MiB"),
            Column("B", "MiB"),
            Column("Difference", "MiB"),
            Column("Difference", "%"),
        )
        notes = ("Requested bytes at the peak of the recorded steps, one recording a run.",)
        title = f"Memory by category, from A to B{head.title}"
        return Table("memory-categories", title, columns, tuple(rows), notes)

    def _unanswered(self) -> Table | None:
        rows = tuple(
            (name, state.case.label, status_word(state))
            for name, states in zip("AB", self.runs.unanswered, strict=True)
            for state in states
        )
        columns = (
            Column("Only in", numeric=False),
            Column("Case", numeric=False),
            Column("Status", numeric=False),
        )
        return Table("unanswered", "Cases of one run alone", columns, rows) if rows else None

    @property
    def rows_of_changes(self) -> list[Comparison]:
        """The comparison behind each row of the table of changes."""
        return [
            found for found in self.runs.comparisons for part in found.parts if counts(part, found)
        ]

    def said_of(self, found: Comparison) -> list[str]:
        """What may be said of one case; empty where nothing is told from equal."""
        return said_of(found, self.runs.profiles)


def _change_cell(part: PartChange) -> Cell:
    """A change from A to B; ~ where they are not distinguished."""
    if part.decision == "not distinguished":
        return SAME
    return unclear(part) or change_figure(part.time)


class _Head:
    """What tells the compared cases apart, as columns; what is the same, in the title."""

    def __init__(self, pairs: Sequence[tuple[CaseState, CaseState]]) -> None:
        states = [base for base, _ in pairs]
        self._model = len({state.case.model.name for state in states}) > 1
        self._axes = [a for a in varying(state.case for state in states) if a.changes != "phases"]
        self._mode = len({state.case.mode for state in states}) > 1
        self.columns = (
            *((Column("Model Size", numeric=False),) if self._model else ()),
            *((Column("Mode", numeric=False),) if self._mode else ()),
            *(AXIS_COLUMNS[axis.field] for axis in self._axes),
        )
        labels = [_labels(base.case.label, other.case.label) for base, other in pairs]
        self.title = f": {labels[0]}" if len(labels) == 1 else ""

    def cells(self, state: CaseState) -> tuple[Cell, ...]:
        case = state.case
        return (
            *((case.model.name,) if self._model else ()),
            *((case.mode,) if self._mode else ()),
            *(axis_value(state, axis.field) for axis in self._axes),
        )


def _labels(one: str, other: str) -> str:
    """The label of two cases, with what differs as `bf16 → fp32`."""
    parts, others = one.split(" · "), other.split(" · ")
    if len(parts) != len(others):
        return f"{one} → {other}"
    told = (a if a == b else f"{a} → {b}" for a, b in zip(parts, others, strict=True))
    return " · ".join(told)


def _alike(runs: TwoRuns) -> str:
    """What a reader asks first and both have in common."""
    apart = {each.what for each in runs.differences}
    environment = runs.other.environment
    if environment is None:
        return ""
    told = (
        ("Device", environment.device_name),
        ("Driver", environment.driver and f"driver {environment.driver}"),
        ("PyTorch", environment.torch and f"PyTorch {environment.torch}"),
        ("CPU", environment.cpu_name),
    )
    return ", ".join(text for what, text in told if text and what not in apart)


def _counted(found: Comparison) -> str:
    """3 processes, 45 steps; 1 and 4 processes, 10 and 60 steps."""
    sides = found.base, found.other
    processes = [sum(each.total is not None for each in processes_of(side)) for side in sides]
    steps = [found.total.base.n, found.total.other.n]
    return f"{_both(processes, 'process', 'es')}, {_both(steps, 'step', 's')}"


def _both(numbers: list[int], noun: str, plural: str) -> str:
    told = " and ".join(dict.fromkeys(map(str, numbers)))
    return f"{told} {noun}{'' if told == '1' else plural}"


def _relative(summary: Summary) -> Cell:
    if summary.ci95 is None or summary.mean <= 0:
        return None
    value = 100 * summary.ci95 / summary.mean
    return Figure(value, value)


def _order(key: tuple[str, str], *sides: ByClass) -> tuple[int, float]:
    """Phases in their order, the class that takes longest first."""
    phases = list(dict.fromkeys(phase for side in sides for phase, _ in side))
    return phases.index(key[0]), -max(side.get(key, 0.0) for side in sides)


def _pair_cells(one: float, other: float) -> tuple[Cell, ...]:
    shown = max(one, other) / 100  # three digits: no interval stands behind them
    grown = None if not one else Figure(100 * (other / one - 1), 1.0)
    return Figure(one, shown), Figure(other, shown), Figure(other - one, shown), grown


def _source(pair: Pair) -> str:
    """What counted the memory of both; "" where it was not the same."""
    sources = {each.memory.source for each in (pair.base, pair.other) if each.memory is not None}
    return sources.pop() if len(sources) == 1 else ""
