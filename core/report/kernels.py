"""Where a profiled case's time went: top kernels, classes, modules, matrix products."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core import events as ev
from llmprof.core.kernels.rows import CLASSES, UNATTRIBUTED, KernelRow, ShareRow
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.results import CaseState, RunView

TOP = 15
TABLE_IDS = {"forward": "M23", "backward": "M25"}
CPU_NOTE = "No card: these are CPU ops, each by its self time; nothing here is a GPU figure."


def kernel_tables(view: RunView) -> list[Table]:
    """All tables of every profiled case, in the order in which they are read."""
    tables: list[Table] = []
    for state in view.cases:
        if state.kernels is not None:
            tables += [class_table(state, state.kernels)]
            tables += [top_kernels(state, state.kernels, p) for p in phases(state.kernels)]
            tables += [module_table(state, state.kernels)]
    return tables


def phases(table: ev.KernelTable) -> list[str]:
    """Phases in which something ran, unattributed last if there was any."""
    return list(dict.fromkeys(row.phase for row in table.rows))


def busy_ms(table: ev.KernelTable) -> float:
    """All activities of all profiled steps: what shares of GPU-busy time are of."""
    return sum(row.total_ms for row in table.rows)


def wall_ms(state: CaseState) -> float | None:
    """Wall time of all profiled steps together."""
    if state.kernels is None or state.timeline is None or not state.timeline.parts:
        return None
    return state.timeline.parts[0].wall_ms * state.kernels.steps


def top_kernels(
    state: CaseState, table: ev.KernelTable, phase: str, limit: int | None = TOP
) -> Table:
    """M23, M25: the kernels of one phase, the longest first, the rest in one row."""
    rows = [row for row in table.rows if row.phase == phase]
    shown, rest = (rows, []) if limit is None else (rows[:limit], rows[limit:])
    whole, wall = busy_ms(table), wall_ms(state)
    sources = any(row.source for row in shown)
    cells = [_kernel_cells(row, table.steps, whole, wall, sources=sources) for row in shown]
    if rest:
        cells.append(_rest_cells(rest, table.steps, whole, wall, sources=sources))
    noun = "Kernel" if table.source == "cuda" else "CPU op"
    columns = (
        Column(noun, numeric=False),
        Column("Class", numeric=False),
        Column("Calls", "per step"),
        Column("Avg", "µs"),
        Column("Std Dev", "µs"),
        Column("Total", "ms per step"),
        Column(f"Of {busy_word(table)}", "%"),
        Column("Of wall", "%"),
        Column("Launched by", numeric=False),
        Column("Module", numeric=False),
        *((Column("Source", numeric=False),) if sources else ()),
    )
    nouns = "kernels" if table.source == "cuda" else "CPU ops"
    return Table(
        f"{TABLE_IDS.get(phase, 'kernels')}-{phase}-{state.index}",
        f"Top {nouns}, {phase}: {state.case.label}",
        columns,
        tuple(cells),
        _kernel_notes(table),
        folded=phase not in ("forward", "backward", "optimizer"),
    )


def class_table(state: CaseState, table: ev.KernelTable) -> Table:
    """Time by class: one row a class, one column a phase, milliseconds of one step."""
    names = phases(table)
    whole, wall = busy_ms(table), wall_ms(state)
    rows: list[tuple[Cell, ...]] = []
    for label in CLASSES:
        mine = [row for row in table.classes if row.label == label]
        if mine:
            total = sum(row.total_ms for row in mine)
            shares = (_percent(total, whole), _percent(total, wall))
            rows.append((label, *_phase_cells(mine, names, table.steps), *shares))
    rows.sort(key=lambda row: -_value(row[len(names) + 2]))
    columns = (
        Column("Class", numeric=False),
        Column("Calls", "per step"),
        *(Column(phase, "ms") for phase in names),
        Column("Total", "ms"),
        Column(f"Of {busy_word(table)}", "%"),
        Column("Of wall", "%"),
    )
    notes = (*_coverage_notes(table), *table.notes)
    title = f"Time by class, one step of {table.steps} profiled: {state.case.label}"
    return Table(f"classes-{state.index}", title, columns, tuple(rows), notes)


def module_table(state: CaseState, table: ev.KernelTable) -> Table:
    """Time by module, layers together: forward and backward of each, and what has none."""
    names = phases(table)
    rows: list[tuple[Cell, ...]] = []
    whole = busy_ms(table)
    for label in dict.fromkeys(row.label for row in table.modules):
        mine = [row for row in table.modules if row.label == label]
        share = _percent(sum(row.total_ms for row in mine), whole)
        rows.append((label, *_phase_cells(mine, names, table.steps), share))
    rows.sort(key=lambda row: -_value(row[-1]))
    columns = (
        Column("Module", numeric=False),
        Column("Calls", "per step"),
        *(Column(phase, "ms") for phase in names),
        Column("Total", "ms"),
        Column(f"Of {busy_word(table)}", "%"),
    )
    title = f"Time by module: {state.case.label}"
    notes = ("Layers are added up: blocks.* is every block. In brackets: what has no module.",)
    return Table(f"modules-{state.index}", title, columns, tuple(rows), notes, folded=True)


def gemm_table(view: RunView) -> Table | None:
    """Matrix products by the op that launches them, beside what the model must have."""
    rows: list[tuple[Cell, ...]] = []
    for state in view.cases:
        for count in state.kernels.gemms if state.kernels else ():
            if not count.ops and not count.expected_per_step:
                continue
            per_gemm = None if count.kernels is None or not count.ops else count.kernels / count.ops
            verdict = {True: "as expected", False: "NOT as expected", None: "no formula"}
            rows.append(
                (
                    state.case.label,
                    count.phase,
                    _calls(count.ops, count.steps),
                    count.expected_per_step,
                    verdict[count.as_expected],
                    per_gemm,
                )
            )
    columns = (
        Column("Case", numeric=False),
        Column("Phase", numeric=False),
        Column("GEMM ops", "per step"),
        Column("Expected", "per step"),
        Column("Verdict", numeric=False),
        Column("Kernels per GEMM"),
    )
    notes = (
        "Eager with naive attention: 9L + 1 forward (7L + 1 linear, 2L attention), 18L + 2 backward"
        " for L layers. One op may launch two kernels (split-K).",
    )
    return Table("gemms", "Matrix products", columns, tuple(rows), notes) if rows else None


def busy_word(table: ev.KernelTable) -> str:
    """What shares are of."""
    return "GPU-busy" if table.source == "cuda" else "op time"


def _kernel_cells(
    row: KernelRow, steps: int, whole: float, wall: float | None, *, sources: bool
) -> tuple[Cell, ...]:
    return (
        row.name,
        row.group,
        _calls(row.calls, steps),
        1e3 * row.avg_ms,
        None if row.std_ms is None else 1e3 * row.std_ms,
        row.total_ms / steps,
        _percent(row.total_ms, whole),
        _percent(row.total_ms, wall),
        row.op or UNATTRIBUTED,
        row.module or UNATTRIBUTED,
        *((row.source or "",) if sources else ()),
    )


def _rest_cells(
    rest: list[KernelRow], steps: int, whole: float, wall: float | None, *, sources: bool
) -> tuple[Cell, ...]:
    calls, total = sum(row.calls for row in rest), sum(row.total_ms for row in rest)
    count = sum(row.merged for row in rest)
    return (
        f"({count} more)",
        "",
        _calls(calls, steps),
        1e3 * total / calls,
        None,
        total / steps,
        _percent(total, whole),
        _percent(total, wall),
        "",
        "",
        *(("",) if sources else ()),
    )


def _phase_cells(mine: Iterable[ShareRow], names: list[str], steps: int) -> tuple[Cell, ...]:
    """Calls, the time in each phase, and the whole time, all of one step."""
    by_phase = {row.phase: row for row in mine}
    calls = sum(row.calls for row in by_phase.values())
    total = sum(row.total_ms for row in by_phase.values())
    times = [_per_step(by_phase[p].total_ms if p in by_phase else None, steps) for p in names]
    return (_calls(calls, steps), *times, _per_step(total, steps))


def _kernel_notes(table: ev.KernelTable) -> tuple[str, ...]:
    note = (
        f"Mean and sample standard deviation (ddof 1) over the calls of {table.steps} profiled"
        f" steps; shares are of the whole step's {busy_word(table)} and wall time."
    )
    return (note,) if table.source == "cuda" else (CPU_NOTE, note)


def _coverage_notes(table: ev.KernelTable) -> list[str]:
    c = table.coverage
    shares = (("phase", c.to_phase), ("op", c.to_op), ("module", c.to_module))
    known = ", ".join(f"{name} {share:.2f} %" for name, share in shares if share is not None)
    notes = [f"Coverage of the time of {c.activities:,} activities: {known}."]
    if c.backward_to_module is not None:
        notes.append(f"Of the backward {c.backward_to_module:.2f} % is tied to a module.")
    if table.source == "cpu":
        return [CPU_NOTE, *notes]
    lost = f"{c.launches_without_kernel:,} without a kernel"
    return [*notes, f"{c.launches:,} kernel launches, {lost}."]


def _calls(calls: int, steps: int) -> Cell:
    """Calls of one step: whole unless the steps differed."""
    return calls // steps if calls % steps == 0 else Figure(calls / steps, 0.1)


def _per_step(total: float | None, steps: int) -> Cell:
    return Figure(None if total is None else total / steps)


def _percent(part: float, whole: float | None) -> Figure:
    return Figure(None if not whole else 100 * part / whole, 0.1)


def _value(cell: Cell) -> float:
    return cell.value or 0.0 if isinstance(cell, Figure) else 0.0
