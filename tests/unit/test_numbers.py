"""Numbers and counts as text: plain decimals, digits that are deserved, nouns that agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llmprof.core.system import numbers
from llmprof.core.system.numbers import (
    as_given,
    at_most,
    format_number,
    interval,
    significant,
)
from llmprof.core.system.text import counted

CORE = Path(numbers.__file__).parents[1]
SAID = ("figures", "lint", "report", "stats", "memory")  # rooms whose texts a report shows


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(1.403, 2, "1.4"), (0.0217, 2, "0.022"), (135.2, 3, "135"), (3352.0, 2, "3,352"),
     (0.0, 3, "0"), (2.0, 3, "2"), (1e-14, 2, "under 0.000000000001")],
)  # fmt: skip
def test_significant_digits(value: float, digits: int, text: str) -> None:
    assert significant(value, digits) == text


@pytest.mark.parametrize(
    ("value", "text"), [(66.9, "66.9"), (3352.0, "3,352"), (0.5, "0.5"), (1e6, "1,000,000")]
)
def test_round_numbers_stay_as_they_were_chosen(value: float, text: str) -> None:
    assert as_given(value) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (1.099, 3.472, "1.1 to 3.5"),  # both ends with the same decimals
        (0.858, 1.885, "0.86 to 1.89"),
        (1.0043, 1.0092, "1.004 to 1.009"),
        (-2.4, 93.1, "-2 to 93"),
        (0.00128, 0.00128, "0.001280 to 0.001280"),
        (-24.347, -0.020, "-24.35 to -0.02"),  # the smaller end is not zero
        (-63.330, -63.261, "-63.33 to -63.26"),
        (100.012, 100.034, "100.01 to 100.03"),  # unequal ends do not read as equal
    ],
)
def test_an_interval_has_the_digits_of_its_width(low: float, high: float, text: str) -> None:
    assert interval(low, high) == text


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (106.067, 0.093, "106.1"),  # between the steps of one process: surer than it is
        (92.097, 0.047, "92.10"),
        (53.02, 17.0, "53"),
        (3.29886, 0.00004, "3.299"),
        (33280.0, 1.0, "33,280"),
        (8135.6, 0.1, "8,136"),
        (289.03, 0.1, "289.0"),
        (0.0, 0.1, "0.00"),
    ],
)
def test_a_value_has_the_digits_of_its_interval_and_four_at_most(
    value: float, half: float, text: str
) -> None:
    assert format_number(value, half) == text


@pytest.mark.parametrize(
    ("value", "text"), [(5.04, "5.1"), (0.331, "0.34"), (41.0, "41"), (140.2, "150"), (0.0, "0")]
)
def test_an_uncertainty_is_never_shown_smaller(value: float, text: str) -> None:
    assert at_most(value) == text


@pytest.mark.parametrize("value", [1e-9, 3e-5, 1.5e7, 4e12])
def test_no_powers_of_ten(value: float) -> None:
    for text in (format_number(value), significant(value), as_given(value), at_most(value)):
        assert not re.search(r"\d[eE][-+]?\d", text)


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(1, "case", "1 case"), (0, "case", "0 cases"), (2, "process", "2 processes"),
     (1200, "launch", "1,200 launches"), (2, "CPU", "2 CPUs")],
)  # fmt: skip
def test_a_count_agrees_with_its_noun(count: int, noun: str, text: str) -> None:
    assert counted(count, noun) == text


@pytest.mark.parametrize("room", SAID)
def test_what_is_said_has_one_way_to_write_numbers_and_one_to_count(room: str) -> None:
    """The formats g and e give powers of ten; a plural of its own is forgotten somewhere."""
    own = re.compile(r""":,?\.?\d*[ge]\}|== 1 else ["'](e?s|(\w+ )*(cases|steps))["']""")
    for path in sorted((CORE / room).rglob("*.py")):
        found = own.search(path.read_text("utf-8"))
        assert found is None, f"{path.name}: {found}"
