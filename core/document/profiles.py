"""Where the card's time goes: classes of kernels, the longest kernel of a phase, idle time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from llmprof.core.document.configurations import (
    OF_MODEL,
    configuration_cells,
    parameters,
    source_cells,
    source_columns,
    switches_text,
)
from llmprof.core.document.quotes import IN_CSV, KeyedTable, keyed, rows_left_out
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import MODES, Found
from llmprof.core.events.kernel_rows import CLASSES, WHOLE_STEP, PhaseTimeline
from llmprof.core.figures.profile_wholes import Wholes, mean_phase, mean_wall, twin, work_word
from llmprof.core.report.kernel_shares import calls_cell, share_cell
from llmprof.core.report.table import Cell, Column, Figure
from llmprof.core.state.view import CaseState

PHASES = ("forward", "loss", "backward", "optimizer", "zero_grad")
MOST_KERNELS = 12  # of a table of top kernels
ONE_GAP = 0.5  # of a part's idle time in its longest gap: fewer launches do not shorten that
IDLE = 0.2  # of a step: a card that waits so long is not what sets its pace
STEP_COLUMNS = (
    Column("Variant", numeric=False),
    Column("Part", numeric=False),
    Column("Plain", "ms"),
    Column("Profiled", "ms"),
    Column("GPU busy", "ms"),
    Column("Idle of plain", "%"),
    Column("GEMM of busy", "%"),
    Column("Top kernel", numeric=False),
    Column("Its calls", "per step"),
    Column("Its share of kernel time", "%"),
)
STEP_NOTES = (
    "Plain is the same step timed without the profiler, in a process of its own; busy is the time "
    "in which at least one kernel or copy ran; GEMM: the matrix products' share of that. The top "
    "kernel is the one with most time in the part over all its calls; its share is of the time of "
    "all kernels in the part. On a CPU there are ops in place of kernels, and their own times, "
    "which are summed, in place of busy time.",
)


def profiled_cells(sources: Sequence[Source]) -> list[Found]:
    """Profiled cases, training of the largest size first."""
    found = [
        (source, state)
        for source in sources
        for state in source.cases
        if state.kernels is not None and state.kernels.rows
    ]
    return sorted(
        found,
        key=lambda each: (
            MODES.index(each[1].case.mode),
            -parameters(each[1]),
            -each[1].case.context_length,
        ),
    )


def class_table(found: Found) -> KeyedTable | None:
    """A row a class of kernels, a column a phase; keys are the classes' names."""
    source, state = found
    table = state.kernels
    assert table is not None
    wholes = Wholes.of(state, table)
    sums = {(row.label, row.phase): row.total_ms / table.steps for row in table.classes}
    totals = {
        label: sum(value for (name, _), value in sums.items() if name == label) for label in CLASSES
    }
    labels = sorted((name for name in CLASSES if totals[name] > 0), key=lambda n: -totals[n])
    phases = [phase for phase in PHASES if any(name == phase for _, name in sums)]
    return keyed(
        f"classes-{source.name}-{state.index}",
        f"Kernels by class: {state.case.label}",
        (
            Column("Class", numeric=False),
            *(Column(phase, "ms") for phase in phases),
            Column("Step", "ms"),
            Column(f"Of {work_word(table.source)}", "%"),
        ),
        (
            (
                label,
                (
                    label,
                    *(_ms(sums.get((label, phase))) for phase in phases),
                    Figure(totals[label], 0.01),
                    share_cell(totals[label] * table.steps, wholes.work),
                ),
            )
            for label in labels
        ),
        ("Milliseconds of one profiled step, and the share of the sum over all kernels.",),
    )


def _ms(value: float | None) -> Cell:
    return Figure(value, 0.01) if value else 0


def profile_table(cells: Sequence[Found], sources: Sequence[Source]) -> KeyedTable | None:
    """A row for each part of each profiled case; keys are (run, case, part)."""
    head = source_columns(sources)
    rows: list[tuple[Hashable, tuple[Cell, ...]]] = []
    for source, state in cells:
        for part in (WHOLE_STEP, "forward", "backward", "optimizer"):
            figures = _part_cells(source, state, part)
            if figures is None:
                continue
            labels = (*source_cells(source, head), *configuration_cells(state))
            as_ = switches_text(state.case)
            rows.append((profile_key(source, state, part), (*labels, as_, part, *figures)))
    return keyed(
        "profiles",
        "Where the time goes",
        (*head, *OF_MODEL, *STEP_COLUMNS),
        rows,
        STEP_NOTES,
    )


def profile_key(source: Source, state: CaseState, part: str) -> Hashable:
    """The row of a part of a profiled case."""
    return source.name, state.index, part


def part_of(state: CaseState, part: str) -> PhaseTimeline | None:
    """The timeline of a part."""
    parts = () if state.timeline is None else state.timeline.parts
    return next((each for each in parts if each.phase == part), None)


def waits_between_kernels(part: PhaseTimeline) -> bool:
    """Whether the card waits for many launches of a part and not, once, for its first one."""
    if part.gap_max_us is None or part.idle_ms <= 0:
        return False
    return part.gap_max_us / 1e3 < ONE_GAP * part.idle_ms


def idle_share(source: Source, state: CaseState) -> float | None:
    """Idle time of the card as a fraction of the plain step, by the profile's busy time."""
    busy, plain = part_of(state, WHOLE_STEP), mean_wall(twin(source.subject.as_one, state))
    if busy is None or not plain or state.timeline is None or state.timeline.source != "cuda":
        return None
    return max(0.0, 1 - busy.busy_ms / plain)


def _part_cells(source: Source, state: CaseState, part: str) -> tuple[Cell, ...] | None:
    assert state.kernels is not None
    found = part_of(state, part)
    rows = [row for row in state.kernels.rows if part in (WHOLE_STEP, row.phase)]
    if found is None or not rows:
        return None
    alike = twin(source.subject.as_one, state)
    plain = mean_wall(alike) if part == WHOLE_STEP else mean_phase(alike, part)
    idle = None if not plain else max(0.0, 100 * (1 - found.busy_ms / plain))
    on_card = state.kernels.source == "cuda"
    products = found.gemm_ms if found.gemm_busy_ms is None else found.gemm_busy_ms
    longest = max(rows, key=lambda row: row.total_ms)
    whole = sum(row.total_ms for row in rows)
    return (
        Figure(plain, 0.1),
        Figure(found.wall_ms, 0.1),
        Figure(found.busy_ms, 0.1) if on_card else None,
        Figure(idle, 1.0) if on_card else None,
        share_cell(products, found.busy_ms if on_card else found.work_ms),
        longest.name,
        calls_cell(longest.calls, state.kernels.steps),
        share_cell(longest.total_ms, whole),
    )


def top_table(found: Found) -> KeyedTable | None:
    """The kernels with most time of a profiled step, each in its phase; keys (phase, name)."""
    source, state = found
    table = state.kernels
    assert table is not None
    whole = Wholes.of(state, table).work
    listed = sorted(table.rows, key=lambda row: -row.total_ms)[:MOST_KERNELS]
    on_card = table.source == "cuda"
    return keyed(
        f"top-{source.name}-{state.index}",
        f"Top {'kernels' if on_card else 'CPU ops'} of one profiled step: {state.case.label}",
        (
            Column("Kernel" if on_card else "CPU op", numeric=False),
            Column("Part", numeric=False),
            Column("Calls", "per step"),
            Column("Mean", "µs"),
            Column("Total", "ms per step"),
            Column(f"Of the step's {work_word(table.source)}", "%"),
        ),
        (
            (
                (row.phase, row.name, at),
                (
                    row.name,
                    row.phase,
                    calls_cell(row.calls, table.steps),
                    Figure(1e3 * row.avg_ms, 0.1),
                    Figure(row.total_ms / table.steps, 0.001),
                    share_cell(row.total_ms, whole),
                ),
            )
            for at, row in enumerate(listed)
        ),
        rows_left_out(len(listed), len(table.rows), IN_CSV),
    )


def lens_table(found: Found) -> KeyedTable | None:
    """One layer's attention, stage by stage; keys (direction, stage).

    Shares of time and of operations are of the stages of one direction.
    """
    source, state = found
    if state.lens is None:
        return None
    time: dict[str, float] = {}
    work: dict[str, float] = {}
    for row in state.lens.rows:
        time[row.direction] = time.get(row.direction, 0.0) + row.device_us
        work[row.direction] = work.get(row.direction, 0.0) + row.flops
    return keyed(
        f"lens-{source.name}-{state.index}",
        f"The attention of one layer: {state.case.label}",
        (
            Column("Direction", numeric=False),
            Column("Stage", numeric=False),
            Column("GPU time" if state.lens.source == "cuda" else "Op time", "µs"),
            Column("Of the direction's time", "%"),
            Column("Of the direction's operations", "%"),
        ),
        (
            (
                (row.direction, row.stage),
                (
                    row.direction,
                    row.stage,
                    Figure(row.device_us, 0.1),
                    share_cell(row.device_us, time[row.direction]),
                    share_cell(row.flops, work[row.direction]),
                ),
            )
            for row in state.lens.rows
        ),
        ("Mean of one training step. A stage may take much time for few operations.",),
    )
