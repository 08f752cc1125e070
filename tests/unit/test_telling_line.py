"""The one line of an error that a table shows."""

from __future__ import annotations

import pytest

from llmprof.core.system.text import telling_line

COMPILER = """at 2:13:
def kernel(
    queries: Any,
             ^
NameError("Cannot access global variable Any from within @jit'ed function.")
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("\n  \n", ""),
        ("shapes differ\nin the third\n", "shapes differ"),
        ("only this:", "only this:"),
        (
            COMPILER,
            "at 2:13: NameError(\"Cannot access global variable Any from within @jit'ed "
            'function.")',
        ),
    ],
)
def test_the_line_says_what_is_wrong(text: str, line: str) -> None:
    assert telling_line(text) == line
