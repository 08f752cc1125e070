"""Textual's private parts: used in one file alone, and each still there as that file takes it."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from queue import Queue
from typing import Any, cast

import pytest
from rich.segment import Segments
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import LineFilter, Monochrome, NoColor

from llmprof.tui.terminal.textual_inside import InnerApp, InnerDriver

TUI = Path(__file__).parents[2] / "tui"
INSIDE = TUI / "terminal" / "textual_inside.py"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_names(tree: ast.AST) -> set[str]:
    """Private names that code reads, sets or defines on itself."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in ("self", "cls"):
                found.add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {target.id for target in targets(node)}
    return {name for name in found if is_private(name)}


def targets(kind: ast.ClassDef) -> Iterator[ast.Name]:
    """What stands on the left in the body of a class."""
    for node in kind.body:
        left = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (target for target in left if isinstance(target, ast.Name))


@cache
def names_of(kind: type) -> set[str]:
    """Private names of a class itself, without those of its bases."""
    return own_names(ast.parse(textwrap.dedent(inspect.getsource(kind))))


def textual_names(kind: type) -> set[str]:
    """Private names that a class has from Textual."""
    bases = [base for base in kind.__mro__ if base.__module__.partition(".")[0] == "textual"]
    return set().union(*map(names_of, bases))


def classes() -> Iterator[type]:
    for path in sorted(TUI.rglob("*.py")):
        name = ".".join(("llmprof.tui", *path.relative_to(TUI).with_suffix("").parts))
        module = importlib.import_module(name.removesuffix(".__init__"))
        for kind in vars(module).values():
            if inspect.isclass(kind) and kind.__module__ == module.__name__ and path != INSIDE:
                yield kind


def taken(node: ast.stmt | ast.expr) -> list[str]:
    """Names that a statement imports or an expression reads of something else."""
    if isinstance(node, ast.ImportFrom):
        return [*str(node.module).split("."), *(alias.name for alias in node.names)]
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
        return [node.attr]
    return []


def others(path: Path) -> Iterator[str]:
    """Where a file takes private things from others, as FILE:LINE."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.stmt | ast.expr) and any(map(is_private, taken(node))):
            yield f"{path.relative_to(TUI)}:{node.lineno}"


def test_no_class_has_a_name_that_is_textual_s_own() -> None:
    checked = [kind for kind in classes() if textual_names(kind)]
    assert len(checked) > 40
    shared = {kind.__name__: names_of(kind) & textual_names(kind) for kind in checked}
    assert {kind: names for kind, names in shared.items() if names} == {}


def test_one_file_alone_takes_private_things_from_others() -> None:
    paths = [path for path in TUI.rglob("*.py") if path != INSIDE]
    assert [place for path in paths for place in others(path)] == []


def no_arguments(function: Any) -> bool:
    return list(inspect.signature(function).parameters) == ["self"]


def test_the_app_is_as_it_is_taken() -> None:
    app = InnerApp()
    assert app._filters
    assert all(isinstance(each, LineFilter) for each in app._filters)
    assert app._exit_renderables == []
    assert app._driver is None
    assert no_arguments(App._fatal_error)
    assert no_arguments(App._close_messages_no_wait)
    assert "self._filters" in inspect.getsource(App.get_line_filters)
    assert "self._fatal_error()" in inspect.getsource(App)


def test_without_colour_attributes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = InnerApp()
    app.keep_attributes_without_colour()
    assert not any(isinstance(each, Monochrome) for each in app.get_line_filters())
    assert any(isinstance(each, NoColor) for each in app.get_line_filters())


async def test_what_is_said_at_the_end_waits_for_it() -> None:
    app = InnerApp()
    async with app.run_test() as pilot:
        await pilot.pause()
        app.end_saying("what happened")
        (said,) = app._exit_renderables
    assert isinstance(said, Segments)
    assert [segment.text for segment in said.segments] == ["what happened"]


async def test_the_driver_is_as_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/null").open("w") as out, Path("/dev/null").open("r") as keys:
        monkeypatch.setattr("sys.__stderr__", out)
        monkeypatch.setattr("sys.__stdin__", keys)
        driver = InnerDriver(InnerApp())
        assert cast(object, driver._file) is out
        assert driver._writer_thread is None
        assert driver.backlog == 0
        assert driver._loop is asyncio.get_running_loop()
        assert isinstance(driver.key_parser(), XTermParser)
        assert "XTermParser(self._debug)" in inspect.getsource(LinuxDriver.run_input_thread)
        driver.write_to(keys)
        writer = WriterThread(keys)
        assert isinstance(writer._queue, Queue)
        driver._writer_thread = writer
        writer.write("a frame")
        assert driver.backlog == 1
