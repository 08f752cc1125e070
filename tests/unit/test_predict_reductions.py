"""What a sum over rows holds on a card beside its result."""

from __future__ import annotations

import pytest

from llmprof.core.predict.reductions import sum_scratch

H200 = (9, 0)


@pytest.mark.parametrize(
    ("rows", "columns", "size"),
    [
        (8192, 1024, (64 << 20) + 32),  # these two as an H200's allocator counted them
        (2048, 2048, (32 << 20) + 64),
        (512, 1024, 0),  # few rows: no block shares them
    ],
)
def test_parts_of_a_sum(rows: int, columns: int, size: int) -> None:
    assert sum_scratch(rows, columns, H200) == size


def test_more_rows_never_take_less_and_no_card_is_unknown() -> None:
    for capability in ((7, 0), (8, 6), (9, 0), (99, 9)):
        for columns in (1, 2, 3, 50, 768, 4096, 50_000):
            sizes = [sum_scratch(1 << power, columns, capability) for power in range(22)]
            assert sizes == sorted(sizes)
