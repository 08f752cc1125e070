"""Tables and sentences about predicted memory: verdicts, and the peak of every phase."""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core.predict.byte_levels import CATEGORIES, WORKSPACE
from llmprof.core.predict.closed_form import HOPPER, MemoryPrediction
from llmprof.core.predict.fits import FitVerdict, Room, context_span, unsupported
from llmprof.core.predict.part_sizes import PartSize, part_sizes
from llmprof.core.report.table import Cell, Column, Figure, Table, format_cell
from llmprof.core.spec.case import Case
from llmprof.core.system.units import GIB

_UNDECIDED = "what the context takes in the end decides."


@dataclass(frozen=True)
class PredictedRow:
    """A case on a card: its prediction and verdict; room is None where no card is known."""

    case: Case
    prediction: MemoryPrediction
    room: Room | None
    verdict: FitVerdict | None
    on_cpu: bool = False  # without what only a card's libraries take

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability of the card that was predicted for."""
        return HOPPER if self.room is None else self.room.capability

    @property
    def parts(self) -> tuple[PartSize, ...]:
        """The parts of its memory, where it is predicted for."""
        found = part_sizes(self.case, self.capability)
        gone = CATEGORIES[WORKSPACE] if self.on_cpu else ""
        return tuple(part for part in found if part.name != gone)

    @property
    def fits(self) -> bool:
        """Whether there is no need for advice: it fits, or no card is known."""
        return self.verdict in (None, "fits")


def gib(size: int | None) -> Figure:
    """Bytes as GiB, to the hundredth."""
    return Figure(None if size is None else size / GIB, 0.1)


ON_CARD = (
    "The peak is of requested bytes. Allocated bytes add the allocator's rounding; CUDA's context "
    "comes on top of both, and verdicts allow for it."
)
ON_CPU = (
    "The peak is of requested bytes. Allocated bytes add the rounding of CUDA's allocator, which "
    "a CPU does not have."
)


def prediction_table(rows: list[PredictedRow]) -> Table:
    """One row a case and card: the verdict, the peak and the band of allocated bytes."""
    on_cards = any(row.room for row in rows)
    columns = (
        Column("Configuration", numeric=False),
        *((Column("Card", numeric=False), Column("Verdict", numeric=False)) if on_cards else ()),
        Column("Peak", "GiB"),
        Column("Peak phase", numeric=False),
        Column("Allocated from", "GiB"),
        Column("Allocated to", "GiB"),
    )
    cells = tuple(_row(row, on_cards) for row in rows)
    notes = [ON_CPU if any(row.on_cpu for row in rows) else ON_CARD]
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
    title = "Predicted memory"
    return Table("prediction", title, columns, cells, tuple(dict.fromkeys(notes)), number="M12")


def _row(row: PredictedRow, on_cards: bool) -> tuple[Cell, ...]:
    prediction = row.prediction
    card = "" if row.room is None else row.room.name
    return (
        row.case.label,
        *((card, row.verdict or "no card") if on_cards else ()),
        gib(prediction.requested_bytes),
        prediction.peak_phase,
        gib(prediction.allocated_low),
        gib(prediction.allocated_high),
    )


def verdict_sentence(row: PredictedRow) -> str:
    """The verdict with what it follows from, as one sentence; without a card, the peak alone."""
    peak = f"{format_cell(gib(row.prediction.requested_bytes))} GiB at the peak"
    if row.room is None or row.verdict is None:
        return f"{row.case.label} needs {peak}, in {row.prediction.peak_phase}."
    low, high = (format_cell(gib(each)) for each in context_span(row.room.context_bytes))
    need = f"it needs {peak}, and CUDA's context takes {low} to {high} GiB more"
    free = f"{format_cell(gib(row.room.free_bytes))} GiB are free"
    said = {
        "fits": f"fits on {row.room.name}: {need}; {free}.",
        "does not fit": f"does not fit on {row.room.name}: {need}, but only {free}.",
        "too close to say": f"may or may not fit on {row.room.name}: {need}, and {free}; "
        + ("compiled it may need less." if row.prediction.upper_bound else _UNDECIDED),
    }
    return f"{row.case.label} {said[row.verdict]}"


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
