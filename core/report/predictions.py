"""Tables about memory: what is predicted and what to change."""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core.predict.advice import Advice
from llmprof.core.predict.byte_levels import CATEGORIES
from llmprof.core.predict.closed_form import MemoryPrediction
from llmprof.core.predict.fits import FitVerdict, Room, unsupported
from llmprof.core.report.table import Cell, Column, Figure, Prose, Table
from llmprof.core.spec.case import Case
from llmprof.core.system.units import GIB


@dataclass(frozen=True)
class PredictedRow:
    """A case on a card: its prediction and verdict; room is None where no card is known."""

    case: Case
    prediction: MemoryPrediction
    room: Room | None
    verdict: FitVerdict | None


def gib(size: int | None) -> Figure:
    """Bytes as GiB, to the hundredth."""
    return Figure(None if size is None else size / GIB, 0.1)


def prediction_table(rows: list[PredictedRow]) -> Table:
    """One row a case and card: the verdict, the peak, the band and the parts at the peak."""
    on_cards = any(row.room for row in rows)
    used = [name for name in CATEGORIES if any(name in row.prediction.breakdown for row in rows)]
    columns = (
        Column("Configuration", numeric=False),
        *((Column("Card", numeric=False), Column("Verdict", numeric=False)) if on_cards else ()),
        Column("Peak", "GiB"),
        Column("Peak phase", numeric=False),
        Column("Allocated from", "GiB"),
        Column("Allocated to", "GiB"),
        *(Column(name.capitalize(), "GiB") for name in used),
    )
    cells = tuple(_row(row, used, on_cards) for row in rows)
    notes = ["Parts are requested bytes at the peak and sum to it; CUDA's context comes on top."]
    if any(row.prediction.upper_bound for row in rows):
        notes.append(
            "Compiled models are predicted as eager ones; compiled they mostly need less, and "
            "0.4 % more was seen."
        )
    for row in rows:
        if row.room is None:
            continue
        reason = unsupported(row.case.precision, row.room.capability)
        if reason is not None:
            notes.append(f"{row.room.name}: {reason}; the prediction is of memory alone.")
    return Table("prediction", "Predicted memory", columns, cells, tuple(dict.fromkeys(notes)))


def _row(row: PredictedRow, used: list[str], on_cards: bool) -> tuple[Cell, ...]:
    prediction = row.prediction
    card = "" if row.room is None else row.room.name
    return (
        row.case.label,
        *((card, row.verdict or "no card") if on_cards else ()),
        gib(prediction.requested_bytes),
        prediction.peak_phase,
        gib(prediction.allocated_low),
        gib(prediction.allocated_high),
        *(_part(prediction.breakdown.get(name, 0)) for name in used),
    )


def _part(size: int) -> Cell:
    return "under 0.01" if 0 < size < GIB // 200 else gib(size)


def phase_table(rows: list[PredictedRow]) -> Table:
    """Predicted peak of each phase and the level after it."""
    columns = (
        Column("Configuration", numeric=False),
        Column("Phase", numeric=False),
        Column("Peak", "GiB"),
        Column("Level after", "GiB"),
    )
    cells = tuple(
        (row.case.label, phase.phase, gib(phase.peak), gib(phase.end))
        for row in {row.case.key: row for row in rows}.values()
        for phase in row.prediction.phases
    )
    return Table("prediction-phases", "Predicted memory by phase", columns, cells)


def advice_table(case: Case, room: Room, advice: tuple[Advice, ...]) -> Table:
    """What to change in a case that does not fit a card."""
    columns = (
        Column("Change", numeric=False),
        Column("Needs at most", "GiB"),
        Column("Command", numeric=False),
    )
    cells = tuple(
        (each.text, gib(each.needed_bytes), Prose(f"`{each.command}`")) for each in advice
    )
    return Table("advice", f"{case.label} on {room.name}: what fits", columns, cells)
