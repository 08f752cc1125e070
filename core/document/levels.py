"""Memory levels and peaks, each with its kind: what, when, counted how, on which card."""

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
from llmprof.core.document.quotes import KeyedTable, keyed
from llmprof.core.document.sources import Source
from llmprof.core.document.steps import Found
from llmprof.core.report.case_groups import status_word
from llmprof.core.report.prediction_check import error_percent, prediction_for
from llmprof.core.report.table import Cell, Column, Figure
from llmprof.core.spec.axes import AXES
from llmprof.core.state.view import CaseState
from llmprof.core.system.units import MIB

LEVEL_COLUMNS = (
    Column("Variant", numeric=False),
    Column("Kind", numeric=False),
    Column("Reached in", numeric=False),
    Column("Requested", "MiB"),
    Column("Allocated", "MiB"),
    Column("At the step's start", "MiB"),
    Column("Reserved", "MiB"),
    Column("Resident set", "MiB"),
    Column("Device", numeric=False),
)
LEVEL_NOTES = (
    "Of one step that is not timed. Requested is what tensors ask for and is alike on every card, "
    "allocated adds the allocator's rounding, reserved what it keeps of the card. A peak is the "
    "highest moment of the step, a level what is there at one moment. At the step's start, "
    "allocated: what is there before it and counted in the others too, such as parameters and the "
    "optimizer's state, inputs, the workspace of a library, and, where an attention kernel is "
    "timed with a cold cache, the buffer with which llmprof empties that.",
)
PREDICTED_COLUMNS = (
    Column("Variant", numeric=False),
    Column("Predicted", "MiB"),
    Column("Measured", "MiB"),
    Column("Error", "%"),
    Column("Prediction", numeric=False),
    Column("Outcome", numeric=False),
)
PREDICTED_NOTES = (
    "Peaks of requested bytes of a step, predicted before it ran. Prediction: whether it would "
    "fit; outcome: whether it ran.",
)
LEAST_ERROR, UNDER = 0.001, "under 0.001"  # percent
PEAK, BEFORE_BACKWARD = "peak", "level before backward"


def memory_cells(sources: Sequence[Source]) -> list[Found]:
    """Cases whose memory was read, recorded ones first, one for each configuration."""
    found: dict[Hashable, Found] = {}
    listed = [(source, state) for source in sources for state in source.cases]
    for source, state in sorted(listed, key=lambda each: each[1].memory_timeline is None):
        if state.memory is None and state.memory_timeline is None:
            continue
        if state.case.probe in ("timing", "memory", "attention"):
            found.setdefault(_alike(source, state), (source, state))
    return list(found.values())


def recorded_cells(cells: Sequence[Found]) -> list[Found]:
    """Those of a model whose steps were recorded, the largest last."""
    recorded = [each for each in cells if each[1].case.probe == "memory" and each[1].case.shape]
    return sorted(
        recorded,
        key=lambda each: (
            parameters(each[1]),
            each[1].case.context_length,
            each[1].case.batch_size,
        ),
    )


def _alike(source: Source, state: CaseState) -> Hashable:
    card = "" if source.environment is None else source.environment.device_name
    case = state.case
    probe = "attention" if case.probe == "attention" else "step"
    axes = (axis for axis in AXES if axis.changes != "steps")
    told = (axis for axis in axes if axis.field != "optimizer" or case.mode == "train")
    return card, probe, case.model, *(axis.of(case) for axis in told)


def level_key(source: Source, state: CaseState, kind: str) -> Hashable:
    """The row of a case's peak or level."""
    return source.name, state.index, kind


def level_table(cells: Sequence[Found], sources: Sequence[Source]) -> KeyedTable | None:
    """A row for each case's peak, and one for the level before its backward."""
    head = source_columns(sources)
    rows: list[tuple[Hashable, tuple[Cell, ...]]] = []
    for source, state in cells:
        card = "" if source.environment is None else source.environment.device_name
        for kind, figures in ((PEAK, peak_cells(state)), (BEFORE_BACKWARD, _level_cells(state))):
            if figures is None:
                continue
            labels = (*source_cells(source, head), *configuration_cells(state))
            as_ = switches_text(state.case)
            rows.append((level_key(source, state, kind), (*labels, as_, kind, *figures, card)))
    return keyed(
        "levels", "Memory of a step", (*head, *OF_MODEL, *LEVEL_COLUMNS), rows, LEVEL_NOTES
    )


def peak_cells(state: CaseState) -> tuple[Cell, ...] | None:
    """The phase of the peak, and what it is in each way of counting."""
    recorded = state.memory_timeline
    if recorded is not None:
        at = max(recorded.phases, key=lambda each: each.peak_bytes, default=None)
        phase = "" if at is None else at.phase
        return (
            phase,
            _mib(recorded.peak_bytes),
            _mib(recorded.allocated_peak_bytes),
            _mib(start_bytes(state)),
            _mib(recorded.reserved_bytes),
            None,
        )
    if state.memory is None or not state.memory.edges:
        return None
    edge = max(state.memory.edges, key=lambda each: each.peak_bytes)
    if state.memory.source != "cuda allocator":
        return edge.phase, None, None, None, None, _mib(edge.peak_bytes)
    requested = [each.requested_peak_bytes or 0 for each in state.memory.edges]
    reserved = [each.reserved_bytes or 0 for each in state.memory.edges]
    return (
        edge.phase,
        _mib(max(requested) or None),
        _mib(edge.peak_bytes),
        _mib(start_bytes(state)),
        _mib(max(reserved) or None),
        None,
    )


def _level_cells(state: CaseState) -> tuple[Cell, ...] | None:
    """Allocated bytes at the forward's end, where a backward follows."""
    if state.memory is None or state.memory.source != "cuda allocator":
        return None
    if "backward" not in state.case.phases or state.memory_timeline is not None:
        return None
    end = next((each for each in state.memory.edges if each.phase == "forward"), None)
    if end is None:
        return None
    start = _mib(start_bytes(state))
    return "forward's end", None, _mib(end.allocated_bytes), start, None, None


def start_bytes(state: CaseState) -> int | None:
    """Allocated bytes before the step whose memory was read."""
    edges = () if state.memory is None or not state.memory.on_card else state.memory.edges
    return next((each.allocated_bytes for each in edges if each.phase == "start"), None)


def requested_peak_of(state: CaseState) -> int | None:
    """Highest requested bytes of a step, of the recording or of the step read at its edges."""
    if state.memory_timeline is not None:
        return state.memory_timeline.peak_bytes
    if state.memory is None:
        return None
    known = [each.requested_peak_bytes for each in state.memory.edges if each.requested_peak_bytes]
    return max(known, default=None)


def predicted_table(cells: Sequence[Found], sources: Sequence[Source]) -> KeyedTable | None:
    """Predicted beside measured peaks, and what was said of cases that did not fit."""
    head = source_columns(sources)
    rows: list[tuple[Hashable, tuple[Cell, ...]]] = []
    for source, state in cells:
        said = prediction_for(state, source.environment)
        measured = requested_peak_of(state)
        if said is None or (measured is None and state.status != "oom"):
            continue
        error = error_percent(said.requested_bytes, measured)
        rows.append(
            (
                (source.name, state.index),
                (
                    *source_cells(source, head),
                    *configuration_cells(state),
                    switches_text(state.case),
                    _mib(said.requested_bytes),
                    _mib(measured),
                    _error(error),
                    said.verdict,
                    "ran" if state.status == "ok" else status_word(state),
                ),
            )
        )
    return keyed(
        "predicted",
        "Memory predicted and measured",
        (*head, *OF_MODEL, *PREDICTED_COLUMNS),
        rows,
        PREDICTED_NOTES,
    )


def _error(percent: float | None) -> Cell:
    if percent is None or abs(percent) >= LEAST_ERROR:
        return Figure(percent, 0.01)
    return UNDER


def out_of_memory_cells(sources: Sequence[Source]) -> list[Found]:
    """Cases that did not fit, the smallest first."""
    found = [(s, state) for s in sources for state in s.cases if state.status == "oom"]
    return sorted(found, key=lambda each: parameters(each[1]))


def _mib(size: int | None) -> Cell:
    """Bytes as MiB, with the digits that numbers have."""
    return None if size is None else Figure(size / MIB)
