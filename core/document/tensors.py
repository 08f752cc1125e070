"""Sizes of single tensors by formula, the largest allocations at a peak, what ran out of memory."""

from __future__ import annotations

from collections.abc import Sequence

from llmprof.core.document.configurations import (
    OF_MODEL,
    configuration_cells,
    switches_text,
)
from llmprof.core.document.quotes import KeyedTable, keyed
from llmprof.core.document.steps import Found
from llmprof.core.events import LiveAllocation
from llmprof.core.predict.single_tensors import single_tensors
from llmprof.core.report.case_groups import status_word
from llmprof.core.report.table import Column, Figure
from llmprof.core.state.view import CaseState
from llmprof.core.system.units import MIB

MOST_LARGEST = 5


def tensor_table(cells: Sequence[Found]) -> KeyedTable | None:
    """M38: single tensors of the largest case, by their dimensions."""
    if not cells:
        return None
    case = cells[-1][1].case
    return keyed(
        "tensors",
        "Sizes of single tensors, by formula",
        (
            Column("Tensor", numeric=False),
            Column("Size", numeric=False),
            Column("Context", "tokens"),
            Column("Batch"),
            Column("Formula", numeric=False),
            Column("Each", "MiB"),
        ),
        (
            (
                each.name,
                (
                    each.name,
                    case.model.name,
                    case.context_length,
                    case.batch_size,
                    each.words,
                    Figure(each.size / MIB, 0.1),
                ),
            )
            for each in single_tensors(case)
            if each.size
        ),
    )


def largest_table(cells: Sequence[Found]) -> KeyedTable | None:
    """M32: the largest allocations at the peak of the recorded training case that needs most."""
    recorded = [(found, found.memory_timeline) for _, found in cells]
    known = [(found, event) for found, event in recorded if event is not None]
    trained = [each for each in known if each[0].case.mode == "train"] or known
    if not trained:
        return None
    state, event = max(trained, key=lambda each: each[1].peak_bytes)
    whose = (*configuration_cells(state), switches_text(state.case))
    return keyed(
        "largest",
        f"Largest allocations at the peak: {state.case.label}",
        (
            *OF_MODEL,
            Column("Variant", numeric=False),
            Column("Each", "MiB"),
            Column("Blocks"),
            Column("Together", "MiB"),
            Column("Category", numeric=False),
            Column("What", numeric=False),
        ),
        (
            (
                at,
                (
                    *whose,
                    Figure(each.size / MIB, 0.1),
                    each.count,
                    Figure(each.size * each.count / MIB, 0.1),
                    each.category,
                    _whose(state, each),
                ),
            )
            for at, each in enumerate(event.largest[:MOST_LARGEST])
        ),
    )


def _whose(state: CaseState, found: LiveAllocation) -> str:
    """What holds the bytes; a line of the model that is llmprof's own is called so."""
    ours = state.case.shape is not None and f"worker/{found.what}" in found.stack
    return f"llmprof's {found.what}" if ours else found.what


def out_of_memory_table(cells: Sequence[Found]) -> KeyedTable | None:
    """M42: what did not fit, and in which phase."""
    return keyed(
        "out-of-memory",
        "What did not fit",
        (
            Column("Size", numeric=False),
            Column("Mode", numeric=False),
            Column("Context", "tokens"),
            Column("Batch"),
            Column("Variant", numeric=False),
            Column("Status", numeric=False),
            Column("Failed in", numeric=False),
            Column("Asked", "MiB"),
        ),
        (
            (
                (source.name, state.index),
                (
                    *configuration_cells(state),
                    switches_text(state.case),
                    status_word(state),
                    (state.failure.phase if state.failure is not None else None)
                    or "an unknown phase",
                    Figure(state.failure.bytes_asked / MIB, 1.0)
                    if state.failure is not None and state.failure.bytes_asked
                    else None,
                ),
            )
            for source, state in cells
        ),
    )
