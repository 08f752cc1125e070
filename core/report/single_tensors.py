"""M38: single tensors by their dimensions, of predicted cases and of recorded ones."""

from __future__ import annotations

from collections.abc import Iterable

from llmprof.core.predict.closed_form import HOPPER
from llmprof.core.predict.single_tensors import single_tensors
from llmprof.core.report.table import Cell, Column, Figure, Table
from llmprof.core.spec.axes import BY_FIELD
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.system.units import MIB

_Row = tuple[Cell, ...]


def tensor_table(cases: Iterable[tuple[Case, tuple[int, int]]]) -> Table:
    """Formula, numbers and size of the tensors of cases on cards of a capability.

    Cases that differ in what does not bear on these tensors are one.
    """
    rows: dict[str, dict[_Row, None]] = {}
    for case, capability in cases:
        of = _dimensions(case)
        rows.setdefault(of, {}).update(dict.fromkeys(_rows(case, capability)))
    columns = (
        Column("Configuration", numeric=False),
        Column("Tensor", numeric=False),
        Column("Formula", numeric=False),
        Column("With the numbers", numeric=False),
        Column("Size", "MiB"),
    )
    cells = tuple((of, *row) for of, several in rows.items() for row in several)
    notes = (
        "Sizes are those on a CUDA card. The residual stream and what a norm takes are fp32 under "
        "autocast too. What a block saves counts its input and not its output, each storage once; "
        "copies of weights come on top.",
    )
    return Table("single-tensors", "Single tensors", columns, cells, notes, number="M38")


def recorded_tensors(view: RunView) -> Table | None:
    """The same for the cases of which steps were recorded, or should have been."""
    cases = [
        (state.case, _capability(state, view))
        for state in view.cases
        if state.case.probe == "memory" and state.case.shape is not None
    ]
    return tensor_table(cases) if cases else None


def _capability(state: CaseState, view: RunView) -> tuple[int, int]:
    environment = state.environment or view.environment
    return HOPPER if environment is None else environment.capability or HOPPER


def _rows(case: Case, capability: tuple[int, int]) -> list[_Row]:
    return [
        (each.name, each.words, each.numbers, Figure(each.size / MIB, 0.1) if each.size else 0)
        for each in single_tensors(case, capability)
    ]


def _dimensions(case: Case) -> str:
    """What of a case bears on its tensors: the model and the axes of its work and precision."""
    attention = BY_FIELD["attention"].named(case.attention)
    sizes = f"batch {case.batch_size} · ctx {case.context_length}"
    return f"{case.model.name} · {sizes} · {case.precision} · {attention}"
