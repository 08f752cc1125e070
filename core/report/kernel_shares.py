"""What a kernel's time may be a share of, and how each is called."""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core import events as ev
from llmprof.core.report.table import Cell, Column, Figure
from llmprof.core.results import CaseState


@dataclass(frozen=True)
class Wholes:
    """Milliseconds of all profiled steps together; None where the run does not say.

    work is the sum over all activities, of which shares add up to 100 %. busy is the time in
    which at least one ran: of it they add up to more where activities overlapped. On the CPU
    there is no busy: self times of ops are parts of work.
    """

    work: float
    busy: float | None
    wall: float | None

    @classmethod
    def of(cls, state: CaseState, table: ev.KernelTable) -> Wholes:
        """Those of a profiled case."""
        work = sum(row.total_ms for row in table.rows)
        step = state.timeline.parts[0] if state.timeline is not None else None
        busy = None if step is None or table.source == "cpu" else step.busy_ms * table.steps
        return cls(work, busy, None if step is None else step.wall_ms * table.steps)


def work_word(source: str) -> str:
    """What the sum over all activities is called."""
    return "GPU time" if source == "cuda" else "op time"


def share_columns(source: str) -> tuple[Column, ...]:
    """Headings of share_cells()."""
    busy = (Column("Of GPU-busy", "%"),) if source == "cuda" else ()
    return (Column(f"Of {work_word(source)}", "%"), *busy, Column("Of profiled wall", "%"))


def share_cells(total: float, wholes: Wholes, source: str) -> tuple[Cell, ...]:
    """Percent of each whole that there is for this source."""
    busy = (percent(total, wholes.busy),) if source == "cuda" else ()
    return (percent(total, wholes.work), *busy, percent(total, wholes.wall))


def shares_note(table: ev.KernelTable, wholes: Wholes) -> str:
    """What the shares are of, with the numbers."""
    steps = table.steps
    if table.source == "cpu":
        return f"Op time is the sum of the ops' self times, {wholes.work / steps:.4g} ms a step."
    text = f"GPU time is the sum over all kernels and copies, {wholes.work / steps:.4g} ms a step"
    if wholes.busy is None:
        return f"{text}."
    busy = f"GPU-busy, {wholes.busy / steps:.4g} ms, is the time in which at least one ran"
    over = percent(wholes.work, wholes.busy).value
    if over is None or over < 100.05:
        return f"{text}; {busy}."
    return f"{text}; {busy}: they overlapped, so that shares of it add up to {over:.1f} %."


def calls_cell(calls: int, steps: int) -> Cell:
    """Calls of one step: whole unless the steps differed."""
    return calls // steps if calls % steps == 0 else Figure(calls / steps, 0.1)


def percent(part: float, whole: float | None) -> Figure:
    """A share to a tenth of a percent; n/a of an unknown or empty whole."""
    return Figure(None if not whole else 100 * part / whole, 0.1)
