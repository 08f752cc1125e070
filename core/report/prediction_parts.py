"""Tables of the parts of predicted memory: each for itself, and those alive at the peak."""

from __future__ import annotations

from dataclasses import dataclass, replace

from llmprof.core.predict.byte_levels import CATEGORIES
from llmprof.core.predict.part_sizes import PARTS, WORDS
from llmprof.core.report.predictions import PredictedRow, gib
from llmprof.core.report.table import Cell, Column, Table

LEFT_OUT = "Own models are left out: a trace tells the peaks of their steps, not the parts."
_A_NOTE = 4  # parts that one note explains


@dataclass(frozen=True)
class _Alike:
    """A case on cards on which its parts have the same sizes."""

    row: PredictedRow
    sizes: dict[str, int]
    cards: str


def part_tables(rows: list[PredictedRow]) -> list[Table]:
    """Both tables of parts, of the cases that have parts: own models are traced as a whole."""
    known = [row for row in rows if row.case.shape is not None]
    tables = [parts_table(known), peak_table(known)] if known else []
    if len(known) == len(rows):
        return tables
    return [replace(table, notes=(*table.notes, LEFT_OUT)) for table in tables]


def parts_table(rows: list[PredictedRow]) -> Table:
    """M12: the size of each part whenever it is alive, beside the peak; one row a case.

    A case has several rows where it differs between cards.
    """
    alike, by_card = _alike(rows)
    used = [name for name in PARTS if any(name in each.sizes for each in alike)]
    columns = (
        *_first_columns(by_card=by_card),
        *(Column(_heading(name), "GiB") for name in used),
        Column("Peak", "GiB"),
        Column("Peak phase", numeric=False),
    )
    cells = tuple(
        (
            *_first_cells(each, by_card=by_card),
            *(gib(each.sizes.get(name)) for name in used),
            gib(each.row.prediction.requested_bytes),
            each.row.prediction.peak_phase,
        )
        for each in alike
    )
    notes = (
        "Parts are not alive all at once, so they do not sum to the peak. n/a: a step of this mode "
        "has no such part.",
        *(_explained(names) for names in (used[:_A_NOTE], used[_A_NOTE:])),
    )
    title = "Size of each part, whenever it is alive"
    return Table("prediction-parts", title, columns, cells, notes, number="M12")


def _explained(names: list[str]) -> str:
    return " ".join(f"{_heading(name)}: {WORDS[name]}." for name in names)


def peak_table(rows: list[PredictedRow]) -> Table:
    """What is alive at the peak: parts that sum to it."""
    alike, by_card = _alike(rows)
    used = [name for name in CATEGORIES if any(name in each.sizes for each in alike)]
    columns = (
        *_first_columns(by_card=by_card),
        Column("Peak phase", numeric=False),
        *(Column(_heading(name), "GiB") for name in used),
        Column("Peak", "GiB"),
    )
    cells = tuple(
        (
            *_first_cells(each, by_card=by_card),
            each.row.prediction.peak_phase,
            *(_alive(each, name) for name in used),
            gib(each.row.prediction.requested_bytes),
        )
        for each in alike
    )
    notes = (
        "0 is what is not alive at that moment; n/a is what the mode does not have at all. "
        "Activations may be more than when forward ended: the loss saves its log-probabilities.",
    )
    return Table("prediction-peak", "What the peak consists of", columns, cells, notes)


def _alive(each: _Alike, name: str) -> Cell:
    size = each.row.prediction.breakdown.get(name, 0)
    if size:
        return gib(size)
    return 0 if name in each.sizes else None


def _alike(rows: list[PredictedRow]) -> tuple[list[_Alike], bool]:
    """Cases with their parts, and whether any is there more than once, for several cards."""
    found: dict[tuple[str, tuple[int, ...]], list[PredictedRow]] = {}
    sizes: dict[tuple[str, tuple[int, ...]], dict[str, int]] = {}
    for row in rows:
        parts = {part.name: part.size for part in row.parts}
        key = row.case.key, (*parts.values(), *row.prediction.breakdown.values())
        found.setdefault(key, []).append(row)
        sizes[key] = parts
    alike = [
        _Alike(same[0], sizes[key], ", ".join(row.room.name for row in same if row.room))
        for key, same in found.items()
    ]
    return alike, len(alike) > len({row.case.key for row in rows})


def _first_columns(*, by_card: bool) -> tuple[Column, ...]:
    card = (Column("Card", numeric=False),) if by_card else ()
    return (Column("Configuration", numeric=False), *card)


def _first_cells(each: _Alike, *, by_card: bool) -> tuple[Cell, ...]:
    return (each.row.case.label, each.cards) if by_card else (each.row.case.label,)


def _heading(name: str) -> str:
    return name[0].upper() + name[1:]
