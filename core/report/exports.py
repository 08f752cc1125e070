"""A run and its cases as JSON data; a case as one row of CSV is in case_csv.py."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import msgspec

from llmprof.core.events import SKIPPED, MemoryTimeline
from llmprof.core.figures.memory_peaks import peaks_of
from llmprof.core.figures.throughput import throughput
from llmprof.core.lint import Verdict
from llmprof.core.report.loops import loop_document
from llmprof.core.report.registry import tables
from llmprof.core.report.subject import subject_of
from llmprof.core.report.table import Cell, Figure, Table
from llmprof.core.report.timing import parameters_of
from llmprof.core.spec.case import PHASES, Case
from llmprof.core.spec.own_model import OwnModel
from llmprof.core.state.step_columns import StepRow
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.stats.summary import Summary

EXPORT_SCHEMA = 2
PEAKS = ("peak_allocated_bytes", "peak_requested_bytes", "peak_resident_bytes")
RATES = ("tokens_per_s", "tflops", "peak_tflops", "mfu", "of_ceiling")
UNROLLED = ("step-log",)  # every step stands with its case
STATISTICS = ("n", "mean_ms", "std_ms", "median_ms", "min_ms", "max_ms", "cv_percent", "ci95_ms")


def document(view: RunView) -> dict[str, Any]:
    """The whole run as JSON data; what a mode does not have is null."""
    environment = None if view.environment is None else msgspec.to_builtins(view.environment)
    said = subject_of(view).verdicts
    return {
        "schema": EXPORT_SCHEMA,
        "run": view.run_id,
        "experiment": None if view.experiment is None else view.experiment.name,
        "command": list(view.command),
        "outcome": view.state_words,
        "environment": environment,
        "cases": [
            case_document(state, said[state.index], rates_of(state, view)) for state in view.cases
        ],
        "loops": [loop_document(loop) for loop in view.loops],
        "tables": [table_document(table) for table in tables(view) if table.key not in UNROLLED],
    }


def rates_of(state: CaseState, view: RunView) -> dict[str, Any]:
    """Throughput of a case under its export names; unknowns None."""
    given = None if view.experiment is None else view.experiment.peak_tflops
    found = throughput(state, state.environment or view.environment, given)
    if found is None:
        return dict.fromkeys(RATES)
    peak = None if found.peak is None else found.peak.tflops
    values = (found.tokens_per_s, found.tflops, peak, found.mfu, found.of_ceiling)
    return dict(zip(RATES, values, strict=True))


def table_document(table: Table) -> dict[str, Any]:
    """A table as JSON data: columns with units, rows of bare values, the sentences below it."""
    return {
        "key": table.key,
        "title": table.title,
        "columns": [{"name": column.header, "unit": column.unit} for column in table.columns],
        "rows": [[bare(cell) for cell in row] for row in table.rows],
        "notes": list(table.notes),
    }


def bare(cell: Cell) -> str | int | float | None:
    """A cell's value without its formatting; what is not finite is None."""
    value = cell.value if isinstance(cell, Figure) else cell
    return None if isinstance(value, float) and not math.isfinite(value) else value


def case_document(
    state: CaseState, said: Iterable[Verdict], rates: dict[str, Any]
) -> dict[str, Any]:
    """One case as JSON data."""
    return {
        "case": state.index + 1,  # as sentences and the coverage table name it
        "config": config(state.case),
        "key": state.case.key,
        "parameters": parameters_of(state),
        "own_optimizer": state.own_optimizer or None,
        "status": export_status(state),
        "failure": _built(state.failure),
        "phases": phase_statistics(state),
        "wall": summary_values(state.wall),
        "host_share": state.host_share,
        "throughput": rates,
        "steps": [
            *(step_document(step, warmup=True) for step in state.warmup),
            *(step_document(step, warmup=False) for step in state.measured),
        ],
        "memory": memory_document(state),
        "recording": recording_document(state.memory_timeline),
        "observed": _built(state.observed),
        "kernels": _built(state.kernels),
        "timeline": _built(state.timeline),
        "attention": _built(state.lens),
        "verdicts": [{"rule": v.rule, "level": v.level, "text": v.text} for v in said],
    }


def _built(found: msgspec.Struct | None) -> Any:
    return None if found is None else msgspec.to_builtins(found)


def config(case: Case) -> dict[str, Any]:
    """The whole configuration of a case, the model's dimensions beside its name."""
    data: dict[str, Any] = msgspec.to_builtins(case)
    shape, probe = data.pop("model"), data.pop("probe")
    if isinstance(case.model, OwnModel):
        own = case.model._asdict() | {"arguments": dict(case.model.arguments)}
        return {"model": own.pop("name"), "probe": probe, **data, "own_model": own, "shape": {}}
    name = shape.pop("name")
    shape["kv_heads"] = case.model.num_kv_heads
    return {"model": name, "probe": probe, **data, "shape": shape}


def export_status(state: CaseState) -> str:
    """Status as exports name it: a case that never ran, or never ended, is skipped."""
    return state.status if state.done else SKIPPED


def phase_statistics(state: CaseState) -> dict[str, dict[str, Any] | None]:
    """Statistics of every phase and of the total; null where the mode has none."""
    found: dict[str, dict[str, Any] | None] = {
        phase: summary_values(state.summaries.get(phase)) for phase in PHASES
    }
    found["total"] = summary_values(state.total)
    return found


def summary_values(summary: Summary | None) -> dict[str, Any] | None:
    """A summary under its export names."""
    if summary is None:
        return None
    values = (
        summary.n,
        summary.mean,
        summary.std,
        summary.median,
        summary.minimum,
        summary.maximum,
        summary.cv_percent,
        summary.ci95,
    )
    return dict(zip(STATISTICS, values, strict=True))


def step_document(step: StepRow, *, warmup: bool) -> dict[str, Any]:
    """One step as JSON data, milliseconds."""
    times = {f"{p}_ms": v for p, v in zip(PHASES, step.device_ms, strict=True)}
    return {
        "index": step.index,
        "warmup": warmup,
        **times,
        "total_ms": step.total_ms,
        "wall_ms": step.wall_ms,
        "loss": step.loss,
    }


def memory_document(state: CaseState) -> dict[str, Any] | None:
    """Memory of one extra step, bytes; null for what this device does not count."""
    step = state.memory
    if step is None:
        return None
    level, peak = ("allocated", "peak_allocated") if step.on_card else ("resident", "peak_resident")
    edges = [
        {
            "phase": edge.phase,
            f"{level}_bytes": edge.allocated_bytes,
            f"{peak}_bytes": edge.peak_bytes,
            "peak_requested_bytes": edge.requested_peak_bytes,
            "reserved_bytes": edge.reserved_bytes,
        }
        for edge in step.edges
    ]
    return {"source": step.source, **peak_values(state), "edges": edges}


def peak_values(state: CaseState) -> dict[str, int | None]:
    """The peaks of a case under their export names."""
    found = peaks_of(state)
    return dict(zip(PEAKS, (found.allocated, found.requested, found.resident), strict=True))


def recording_document(event: MemoryTimeline | None) -> dict[str, Any] | None:
    """A recording as JSON data, whose bytes are requested unless they are called otherwise."""
    if event is None:
        return None
    data: dict[str, Any] = msgspec.to_builtins(event)
    data["peak_allocated_bytes"] = data.pop("allocated_peak_bytes")
    data["peak_requested_bytes"] = data.pop("peak_bytes")
    data["peak_requested_by_allocator_bytes"] = data.pop("requested_peak_bytes")
    for phase in data["phases"]:
        phase["peak_requested_bytes"] = phase.pop("peak_bytes")
        phase["requested_after_bytes"] = phase.pop("after_bytes")
    return data


def to_json(view: RunView) -> str:
    """The run as indented JSON, UTF-8, never NaN or infinity."""
    return json.dumps(document(view), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
