"""No test waits for a time: what takes a tenth of a second here takes ten on a busy machine."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_for

TESTS = Path(__file__).parents[1]
LOOPS = {"waiting.py", "frames.py"}  # what they sleep in ends when a condition holds


def sleeps(path: Path) -> Iterator[str]:
    """Calls of sleep and of pause with a time, as FILE:LINE."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        name = named(call.func)
        if name == "sleep" or (name == "pause" and call.args):
            yield f"{path.relative_to(TESTS)}:{call.lineno}"


def named(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def test_no_test_sleeps() -> None:
    files = [path for path in TESTS.rglob("*.py") if path.name not in LOOPS]
    assert len(files) > 80
    assert [call for path in files for call in sleeps(path)] == []


def test_what_does_not_come_is_named() -> None:
    wait_for(lambda: True)
    with pytest.raises(AssertionError, match=r"not within 0\.01 s: a sample"):
        wait_for(lambda: False, "a sample", 0.01)
    with pytest.raises(AssertionError, match=r"not within 0 s: line 3"):
        wait_for(lambda: False, lambda: f"line {3}", 0)
