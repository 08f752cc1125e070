"""The tables of a document, whole: what its sentences quote, its figures draw, its pages show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from llmprof.core.document.changes import Change, change_table, changes_of
from llmprof.core.document.cost import Budget, Rate, cost_table, rates
from llmprof.core.document.data_types import who_tells
from llmprof.core.document.growth import Growth, growth_table, growths
from llmprof.core.document.host_floors import HostFloors
from llmprof.core.document.levels import (
    level_table,
    memory_cells,
    out_of_memory_cells,
    predicted_table,
    recorded_cells,
)
from llmprof.core.document.profiles import (
    class_table,
    lens_table,
    profile_table,
    profiled_cells,
    top_table,
)
from llmprof.core.document.quotes import KeyedTable
from llmprof.core.document.same_cells import same_table
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import Found, step_cells, step_table
from llmprof.core.document.tensors import largest_table, out_of_memory_table, tensor_table
from llmprof.core.document.warmups import Group, warmup_cells, warmup_table
from llmprof.core.report.registry import BUILDERS
from llmprof.core.report.sentences import listing
from llmprof.core.report.subject import Subject
from llmprof.core.report.table import Table

PHASES, DATA_TYPES = "phases", "data-types"
# Tables that a hand-out asks for as they are in a run's own export; those that a version has, but
# what the document's own tables hold: warm-up and exponents.
GRIDS = (
    PHASES,
    "precision",
    DATA_TYPES,
    "overhead",
    "launches",
    "compile",
    "checkpointing",
    "attention",
    "attention-kernels",
    "scaling",
    "failures",
    "oom-account",
)


@dataclass(frozen=True)
class Tables:
    """Every table with the cells behind its rows; None where the runs hold nothing for it."""

    sources: tuple[Source, ...]
    step_cells: list[Found]
    steps: KeyedTable | None
    all_changes: list[Change]
    changes: KeyedTable | None
    warmup_cells: list[Group]
    warmups: KeyedTable | None
    profiled: list[Found]
    profiles: KeyedTable | None
    classes: list[KeyedTable]
    tops: list[KeyedTable]
    lenses: list[tuple[Found, KeyedTable]]
    memory: list[Found]
    levels: KeyedTable | None
    predicted: KeyedTable | None
    out_of_memory: list[Found]
    growths: list[Growth]
    growth: KeyedTable | None
    tensors: KeyedTable | None
    largest: KeyedTable | None
    out_of_memory_table: KeyedTable | None
    same: KeyedTable | None
    budget: Budget
    left_out: tuple[str, ...] = ()  # sizes and lengths that a write-up had no time for

    @cached_property
    def grids(self) -> tuple[KeyedTable, ...]:
        """Tables of the field, as the runs' own exports have them."""
        several = len(self.sources) > 1
        return tuple(
            _grid(source, name, number, self._completed(source, table), several=several)
            for source in self.sources
            for name in GRIDS
            for number, table in enumerate(_built(name, source.subject.as_one))
            if table.key != DATA_TYPES or source.name in self._types_told
        )

    def _completed(self, source: Source, table: Table) -> Table:
        """Data types with the names of the runs that saw the same."""
        others = self._types_told.get(source.name, ()) if table.key == DATA_TYPES else ()
        if not others:
            return table
        return replace(table, notes=(*table.notes, f"The same in {listing(others)}."))

    @cached_property
    def _types_told(self) -> dict[str, tuple[str, ...]]:
        return who_tells(self.sources)

    def grids_named(self, name: str) -> list[KeyedTable]:
        """The tables of this name, one or several a run."""
        return [grid for grid in self.grids if grid.table.key.split(" ")[0] == name]

    @cached_property
    def rates(self) -> list[Rate]:
        """Tokens a second, here and elsewhere."""
        return rates(self.sources, self.host_floors)

    @cached_property
    def host_floors(self) -> HostFloors:
        """How soon the host launches a step."""
        return HostFloors(self.sources)

    @cached_property
    def cost(self) -> KeyedTable | None:
        """What these rates cost."""
        return cost_table(self.rates, self.sources, self.budget)

    @property
    def beside(self) -> tuple[KeyedTable | None, ...]:
        """Those that only questions read."""
        return self.tensors, self.largest, self.out_of_memory_table

    @property
    def whole(self) -> list[KeyedTable]:
        """All that there are, in the order of the document."""
        single = (self.steps, self.changes, self.warmups, self.profiles)
        rest = (self.levels, self.growth, self.predicted, self.cost, *self.beside, self.same)
        lenses = (lens for _, lens in self.lenses)
        listed = [*single, *self.classes, *self.tops, *lenses, *rest]
        return [each for each in listed if each is not None]


def grid_key(name: str, source: Source, number: int) -> str:
    """What a grid's table is called in a document; the name up to the first blank is its own."""
    return f"{name} {source.name} {number}"


def _grid(source: Source, name: str, number: int, table: Table, *, several: bool) -> KeyedTable:
    own = replace(
        table,
        key=grid_key(name, source, number),
        title=f"{table.title} ({source.name})" if several else table.title,
        folded=False,
    )
    return KeyedTable(own, tuple(range(len(own.rows))))


def _built(name: str, subject: Subject) -> list[Table]:
    built = BUILDERS[name](subject) if name in BUILDERS else None
    if built is None:
        return []
    return [built] if isinstance(built, Table) else list(built)


def tables_of(
    sources: Sequence[Source], budget: Budget | None = None, left_out: tuple[str, ...] = ()
) -> Tables:
    """All tables of some runs; left_out: what their write-up had no time for."""
    budget = budget or Budget()
    steps, changes, warm = step_cells(sources), changes_of(sources), warmup_cells(sources)
    profiled, memory, oom = (
        profiled_cells(sources),
        memory_cells(sources),
        out_of_memory_cells(sources),
    )
    grown = growths(sources)
    classes = [table for found in profiled if (table := class_table(found)) is not None]
    lenses = [(found, lens) for found in profiled if (lens := lens_table(found)) is not None]
    return Tables(
        sources=tuple(sources),
        step_cells=steps,
        steps=step_table(steps, sources),
        all_changes=changes,
        changes=change_table(changes, sources),
        warmup_cells=warm,
        warmups=warmup_table(warm, sources),
        profiled=profiled,
        profiles=profile_table(profiled, sources),
        classes=classes,
        tops=[top for found in profiled if (top := top_table(found)) is not None],
        lenses=lenses,
        memory=memory,
        levels=level_table(memory, sources),
        predicted=predicted_table([*memory, *oom], sources),
        out_of_memory=oom,
        growths=grown,
        growth=growth_table(grown, sources),
        tensors=tensor_table(steps or recorded_cells(memory)),
        largest=largest_table(memory),
        out_of_memory_table=out_of_memory_table(oom),
        same=same_table(sources),
        budget=budget,
        left_out=left_out,
    )
