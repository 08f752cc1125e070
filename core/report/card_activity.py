"""What the card did in each case: clocks, power, temperature, throttling, energy, other tenants."""

from __future__ import annotations

import re

from llmprof.core.figures.card_levels import MetricLevel
from llmprof.core.figures.card_memory import memory_while_measured
from llmprof.core.figures.case_device import CaseDevice, describe_process
from llmprof.core.report.sentences import ref
from llmprof.core.report.subject import subject_of
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.state.view import RunView
from llmprof.core.system.text import counted
from llmprof.core.system.units import MIB

COLUMNS = (
    Column("Case", numeric=False),
    Column("Block", "s"),
    Column("SM clock", "MHz"),
    Column("Highest clock", "MHz"),
    Column("Power", "W"),
    Column("Power limit", "W"),
    Column("Temperature", "°C"),
    Column("Utilization", "%"),
    Column("Throttled", "s"),
    Column("Throttled steps"),
    Column("Shared steps"),
    Column("Energy", "J/step"),
    Column("Energy per token", "mJ"),
    Column("Energy error", "%"),
)

FIGURE = re.compile(r"\d+(?:\.\d+)?")


def devices(view: RunView) -> Table | None:
    """A row a case over its measured steps; None for a run without a card's samples."""
    known = [each for each in subject_of(view).devices if each.reason is None]
    if not known:
        return None
    rows = tuple(_row(view.cases[each.case].case.label, each) for each in known)
    return Table("devices", "The card during the measured steps", COLUMNS, rows, _notes(known))


def card_memory_table(view: RunView) -> Table | None:
    """NVML's used memory in its parts, a row a case."""
    parts = {
        case.index: part
        for case in view.cases
        if (part := memory_while_measured(view, case)) is not None
    }
    if not parts:
        return None
    rows = tuple(
        (
            view.cases[index].case.label,
            *(_mib(size) for size in (part.used, part.allocated, part.cached, part.context)),
            _mib(part.others),
            _mib(part.rest),
        )
        for index, part in parts.items()
    )
    columns = (
        Column("Case", numeric=False),
        *(
            Column(name, "MiB")
            for name in ("Used", "Allocated", "Cached", "Context", "Others", "Rest")
        ),
    )
    notes = ["Used is NVML's highest reading while the case ran; the parts add up to it."]
    if any(part.context is None for part in parts.values()):
        notes.append("Where the CUDA context was not measured, the rest holds it.")
    if any(part.context is not None for part in parts.values()):
        notes.append(
            "Context is what it took when it was made; kernels and libraries that were loaded "
            "since are in the rest."
        )
    if unread := [case for case in view.cases if case.status == "ok" and case.index not in parts]:
        notes.append(
            "Cases whose highest level the driver's readings, one a second, missed are left out "
            f"{ref(*unread)}."
        )
    return Table("card-memory", "Memory of the card by holder", columns, rows, tuple(notes))


def _mib(size: int | None) -> Cell:
    return None if size is None else Figure(size / MIB, 1.0)


def _row(label: str, each: CaseDevice) -> tuple[Cell, ...]:
    energy = each.energy
    error = None if energy is None else energy.error_percent
    return (
        label,
        Figure(each.block_s, 0.01),
        _mean(each.sm_clock, 10.0),
        Figure(each.sm_clock_max, 10.0),
        _mean(each.power, 10.0),
        Figure(each.power_limit, 10.0),
        _mean(each.temperature, 10.0),
        _mean(each.utilization, 10.0),
        Figure(each.throttled_s, 0.1),
        None if each.throttled_s is None else each.throttled_steps,
        each.shared_steps,
        _energy(None if energy is None else energy.joules_per_step, error),
        _energy(None if energy is None else 1e3 * energy.joules_per_token, error),
        Figure(error, 0.1),
    )


def _mean(level: MetricLevel | None, uncertainty: float) -> Cell:
    return None if level is None else Figure(level.mean, uncertainty)


def _energy(value: float | None, error_percent: float | None) -> Cell:
    if value is None or error_percent is None:
        return None
    return Figure(value, value * error_percent / 100)


def _without_energy(reasons: list[str]) -> list[str]:
    """A note for every kind of reason: of those that differ in their figures, the longest case."""
    kinds: dict[str, list[tuple[float, str]]] = {}
    for reason in reasons:
        figures = [float(figure) for figure in FIGURE.findall(reason)]
        kinds.setdefault(FIGURE.sub("", reason), []).append((max(figures[:1], default=0.0), reason))
    return [
        f"Energy is n/a in {counted(len(alike), 'case')}: {max(alike)[1]}"
        + (" (the longest of them)." if len(alike) > 1 else ".")
        for alike in kinds.values()
    ]


def _notes(known: list[CaseDevice]) -> tuple[str, ...]:
    notes = [
        "Block: the time that the measured steps took together, of which the other columns are "
        "means or sums; the driver's own averages lag behind it. Throttled steps ran while clocks "
        "were held down, shared steps while another process worked on the card."
    ]
    sources = sorted({each.energy.source for each in known if each.energy is not None})
    if sources:
        notes.append(
            f"Energy is from the {', '.join(sources)}; Energy error is what its time resolution "
            "leaves."
        )
    notes += sorted({each.energy.note for each in known if each.energy and each.energy.note})
    notes += _without_energy([e.missing["energy"] for e in known if "energy" in e.missing])
    if any(
        level.reaches_out for each in known for level in (each.power, each.utilization) if level
    ):
        notes.append("Power or utilization of short blocks also covers time before them.")
    others = sorted({describe_process(process) for each in known for process in each.others})
    notes += [f"On the card as well: {who}." for who in others[:10]]
    return tuple(notes)
