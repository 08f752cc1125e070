"""NVML's memory against torch's allocator, on recordings of real runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.figures.card_memory import CardMemory, memory_while_measured
from llmprof.core.report.card_activity import card_memory_table
from llmprof.core.state.view import RunView
from llmprof.core.store.pack import open_view

FIXTURES = Path(__file__).parents[1] / "fixtures"
MIB = 2**20


@pytest.fixture(scope="module")
def view() -> RunView:
    return open_view(FIXTURES / "precision-h100.llmprof")


def parts(view: RunView) -> dict[int, CardMemory]:
    found = ((case.index, memory_while_measured(view, case)) for case in view.cases)
    return {index: part for index, part in found if part is not None}


def test_the_parts_add_up_to_what_nvml_says(view: RunView) -> None:
    found = parts(view)
    assert len(found) >= 4
    for part in found.values():
        held = (part.allocated, part.cached, part.context or 0, part.others or 0, part.rest)
        assert part.used == sum(held)


def test_on_a_card_of_our_own_the_rest_is_the_context(view: RunView) -> None:
    """An H100's context with the libraries' handles takes 0.3-1 GiB, whatever the model."""
    for index, part in parts(view).items():
        assert part.context is None
        assert part.others == 0
        assert 300 * MIB < part.rest < 1100 * MIB, view.cases[index].case.label


def test_the_table_has_the_same_figures(view: RunView) -> None:
    table = card_memory_table(view)
    assert table is not None
    assert len(table.rows) == len(parts(view))
    assert "Where the CUDA context was not measured, the rest holds it." in table.notes
    assert [column.heading for column in table.columns][1] == "Used (MiB)"


def test_cases_that_have_no_row_are_named() -> None:
    view = open_view(FIXTURES / "end-to-end-h100.llmprof")
    table = card_memory_table(view)
    assert table is not None
    (note,) = [note for note in table.notes if note.startswith("Cases whose highest level")]
    unread = {int(number) for number in note.split("(cases ")[1].rstrip(").").split(",")}
    assert unread == {case.index + 1 for case in view.cases} - {index + 1 for index in parts(view)}


def test_without_a_card_there_is_nothing_to_say() -> None:
    assert card_memory_table(RunView()) is None
