"""A row a rank: its own work, how far behind it is, when it was heard last."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.figures.loops import Straggler, behind, own_ms, steps_per_s
from llmprof.core.figures.part_words import part_words
from llmprof.core.report.loop_words import LINGERS_S
from llmprof.core.state.loops import LoopState
from llmprof.core.system.text import clock
from llmprof.tui.kit.table_cells import TableCell, TableColumn, TableRow
from llmprof.tui.loop.silences import Silence

RANK_COLUMNS = (
    TableColumn("Rank", 5, "right"),
    TableColumn("Step", 9, "right"),
    TableColumn("Behind", 6, "right"),
    TableColumn("Steps/s", 8, "right"),
    TableColumn("Own ms", 8, "right"),
    TableColumn("In", 24),
    TableColumn("Seen", 9, "right"),
    TableColumn("Machine", 14, priority=2),
)
OWN_ROWS = 200


def rank_rows(
    loops: tuple[LoopState, ...],
    slow: Straggler | None,
    now_ns: int | None,
    silent: Sequence[Silence],
) -> list[TableRow]:
    """The ranks in order; the slow one and those that are not heard stand out."""
    mute = {each.rank: each for each in silent}
    return [_row(loops, loop, slow, now_ns, mute.get(loop.rank)) for loop in loops]


def _row(
    loops: tuple[LoopState, ...],
    loop: LoopState,
    slow: Straggler | None,
    now_ns: int | None,
    silence: Silence | None,
) -> TableRow:
    rate = steps_per_s(loop, now_ns)
    rows = len(loop.rows)
    own = sum(own_ms(loop, max(0, rows - OWN_ROWS), rows).values()) if rows else None
    late = behind(loops, loop)
    is_slow = slow is not None and slow.rank == loop.rank
    part = loop.done.outcome if loop.done is not None else _place(loop, now_ns)
    state = part if silence is None else silence.words
    quiet = None if now_ns is None else max(0.0, (now_ns - loop.last_t) / 1e9)
    seen = "" if quiet is None else clock(quiet, tenths=True)
    gone = silence is not None
    return TableRow(
        str(loop.rank),
        (
            TableCell(str(loop.rank), "title", float(loop.rank)),
            TableCell("–" if loop.step is None else f"{loop.step + 1:,}", "text"),
            TableCell(f"{late:,}" if late else "", "warn" if late > 1 else "text", float(late)),
            TableCell("–" if rate is None else f"{rate:.3g}", "text", rate),
            TableCell("–" if own is None else f"{own:.2f}", "warn" if is_slow else "text", own),
            TableCell(state, "bad" if gone else "muted"),
            TableCell(seen, "bad" if gone else "muted", quiet),
            TableCell(loop.started.node, "muted"),
        ),
    )


def _place(loop: LoopState, now_ns: int | None) -> str:
    """The part that it is in, and since when where that is long."""
    if loop.beat is None:
        return ""
    part = part_words(loop.beat.part, apart=loop.started.model)
    here = loop.current
    if here is None or now_ns is None or now_ns - here.since_ns < LINGERS_S * 1e9:
        return part
    return f"{part} {clock((now_ns - here.since_ns) / 1e9, tenths=True)}"
