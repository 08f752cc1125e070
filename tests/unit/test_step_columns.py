"""Columns of steps over the borders of their blocks."""

from __future__ import annotations

import msgspec
import pytest

from llmprof.core.events import StepDone
from llmprof.core.state.step_columns import BLOCK_STEPS, StepColumns

STEPS = 2 * BLOCK_STEPS + 3


def step(at: int) -> StepDone:
    forward = float(at)
    return StepDone(t=at, case=0, index=at, warmup=False, start_ns=10 * at, wall_ms=2.0 * at + 1,
                    total_ms=forward, device_ms=(forward, None, None, None, None),
                    host_ms=(forward, None, None, None, 1.0), loss=None if at % 2 else 0.5,
                    allocated_bytes=None if at % 2 else at)  # fmt: skip


@pytest.fixture(scope="module")
def columns() -> StepColumns:
    columns = StepColumns()
    for at in range(STEPS):
        columns.append(step(at))
    return columns


@pytest.mark.parametrize(
    "start", [0, 1, BLOCK_STEPS - 1, BLOCK_STEPS, BLOCK_STEPS + 1, STEPS - 1, STEPS]
)
def test_what_is_read_from_a_row_on_crosses_blocks(columns: StepColumns, start: int) -> None:
    view = columns.view()
    assert view.total_ms(start) == [float(at) for at in range(start, STEPS)]
    assert view.start_ns(start) == [10 * at for at in range(start, STEPS)]
    assert view.device_ms("forward", start) == view.total_ms(start)
    assert view.device_ms("backward", start) == []


@pytest.mark.parametrize("at", [0, BLOCK_STEPS - 1, BLOCK_STEPS, STEPS - 1, -1, -BLOCK_STEPS])
def test_a_row_is_the_step_that_was_taken(columns: StepColumns, at: int) -> None:
    index = at % STEPS
    row = columns.view().row(at)
    assert (row.index, row.start_ns, row.total_ms) == (index, 10 * index, float(index))
    assert row.device_ms == (float(index), None, None, None, None)
    assert row.loss == (None if index % 2 else 0.5)
    assert row.allocated_bytes == (None if index % 2 else index)


def test_a_view_keeps_its_length_while_columns_grow_over_a_border() -> None:
    columns = StepColumns()
    for at in range(BLOCK_STEPS - 1):
        columns.append(step(at))
    view = columns.view()
    for at in range(BLOCK_STEPS - 1, BLOCK_STEPS + 2):
        columns.append(step(at))
    assert len(view) == len(view.total_ms()) == BLOCK_STEPS - 1
    assert len(columns.view().wall_ms()) == BLOCK_STEPS + 2
    with pytest.raises(IndexError):
        view.row(BLOCK_STEPS - 1)


@pytest.mark.parametrize(
    "sizes", [(1,), (BLOCK_STEPS,), (3, BLOCK_STEPS + 1, 700), (2 * BLOCK_STEPS + 1,)]
)
def test_steps_taken_in_parts_are_the_steps_taken_singly(
    columns: StepColumns, sizes: tuple[int, ...]
) -> None:
    in_parts, steps, turn = StepColumns(), [step(at) for at in range(STEPS)], 0
    while steps:
        size = sizes[turn % len(sizes)]
        in_parts.extend(steps[:size])
        steps, turn = steps[size:], turn + 1
        if turn % 2:
            assert len(in_parts.view()) == len(in_parts)  # a view between two parts
    assert list(in_parts.view()) == list(columns.view())


def test_rows_shorter_than_the_phases_end_in_unknowns() -> None:
    columns = StepColumns()
    columns.extend([step(0), msgspec.structs.replace(step(1), host_ms=(7.0,))])
    assert [row.host_ms for row in columns.view()] == [
        (0.0, None, None, None, 1.0),
        (7.0, None, None, None, None),
    ]


def test_only_what_comes_next_continues_the_steps() -> None:
    columns = StepColumns()
    columns.extend([step(0), step(1)])
    assert columns.continued_by([step(2), step(3)])
    assert columns.continued_by([step(3)])
    assert not columns.continued_by([step(1)])
    assert not columns.continued_by([step(2), step(2)])
    assert not columns.continued_by([step(2), msgspec.structs.replace(step(3), device_ms=())])


def test_the_host_share_is_a_median_over_steps_with_unknown_phases_left_out() -> None:
    columns = StepColumns()
    assert columns.view().host_share() is None
    for at in (1, 2, 3):
        columns.append(step(at))
    assert columns.view().host_share() == pytest.approx(3 / 5)  # of 2/3, 3/5, 4/7


def test_a_hole_of_two_steps_costs_two_steps() -> None:
    columns = StepColumns()
    kept = [step(at) for at in range(100) if at not in (10, 11)]
    for each in kept:
        assert columns.continued_by([each])
        columns.append(each)
    view = columns.view()
    assert [row.index for row in view] == [each.index for each in kept]
    assert view.row(-1).index == 99
