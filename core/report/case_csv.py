"""A case as one row of CSV; its figures are those of the JSON's object."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

from llmprof.core.lint import Verdict
from llmprof.core.report.csv_cells import csv_cell
from llmprof.core.report.exports import (
    PEAKS,
    RATES,
    STATISTICS,
    config,
    export_status,
    peak_values,
    phase_statistics,
    rates_of,
)
from llmprof.core.report.loops import loops_csv
from llmprof.core.report.subject import subject_of
from llmprof.core.report.timing import parameters_of
from llmprof.core.spec.axes import AXES
from llmprof.core.spec.case import PHASES
from llmprof.core.state.view import CaseState, RunView

CSV_CONFIG = (
    "model",
    "d_model",
    "d_ff",
    "num_layers",
    "num_heads",
    "kv_heads",
    "vocab_size",
    "tie_embeddings",
    "qkv_bias",
    "rope_theta",
    "probe",
    *(axis.field for axis in AXES),
    "measure_steps",
    "device",
    "seed",
)


def to_csv(view: RunView) -> str:
    """One row a case, numeric cells bare, unknowns empty, columns stable and with units.

    Of a tracked loop one row a step, or a second's steps.

    An eager case says "none" under compile: a blank would be read as a missing value, and the
    baseline dropped from whatever is grouped by it.
    """
    if view.loops:
        return loops_csv(view)
    said = subject_of(view).verdicts
    rows = [flat(state, said[state.index]) | rates_of(state, view) for state in view.cases]
    names = list(flat(None)) if not rows else list(rows[0])
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def flat(state: CaseState | None, said: Iterable[Verdict] = ()) -> dict[str, Any]:
    """The CSV's columns of one case; without a case, the column names alone."""
    row: dict[str, Any] = dict.fromkeys(("case", *CSV_CONFIG))
    row |= dict.fromkeys(("parameters", "status", "failure_phase", "failure_message"))
    row |= dict.fromkeys(("bytes_asked", *PEAKS, "host_share"))
    row |= {f"{p}_{s}": None for p in (*PHASES, "total") for s in STATISTICS}
    row |= dict.fromkeys((*RATES, "compile_ms", "verdicts"))
    if state is None:
        return row
    whole = config(state.case)
    row |= {name: whole[name] for name in CSV_CONFIG if name in whole}
    row |= {axis.field: axis.text(axis.of(state.case)) for axis in AXES if axis.values}
    if state.own_optimizer:
        row["optimizer"] = state.own_optimizer
    row |= {name: whole["shape"][name] for name in CSV_CONFIG if name in whole["shape"]}
    row |= {
        "case": state.index + 1,
        "parameters": parameters_of(state),
        "status": export_status(state),
        "failure_phase": None if state.failure is None else state.failure.phase,
        "failure_message": None if state.failure is None else state.failure.message,
        "bytes_asked": None if state.failure is None else state.failure.bytes_asked,
        **peak_values(state),
        "host_share": state.host_share,
        "compile_ms": None if state.observed is None else state.observed.compile_ms,
        "verdicts": "; ".join(v.text for v in said),
    }
    for phase, values in phase_statistics(state).items():
        row |= {f"{phase}_{name}": value for name, value in (values or {}).items()}
    return row
