"""What is shipped is used by what is shipped: nothing lives for its tests alone."""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import textual.app
import textual.drivers.linux_driver
import textual.screen
import textual.widgets

ROOT = Path(__file__).parents[2]
FOLDERS = ("core", "tui", "src/llmprof/cli", "src/llmprof/trainers")
SHIPPED = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
CALLED_BY_TEXTUAL = re.compile(r"on_|action_|_?watch_|validate_|compute_|__")
TEXTUAL = {
    *dir(textual.app.App),
    *dir(textual.screen.Screen),
    *dir(textual.widgets.Input),
    *dir(textual.drivers.linux_driver.LinuxDriver),
}
ARGPARSE = set(dir(argparse.ArgumentParser))
CALLED_BY_TRAINERS = {"LoopCallback", "setup"}  # beside on_…, as Textual's
SEEN_BY_TESTS = {"engine_pid", "shown_keys"}  # what a test asks of a run and of a table

SEEN_BY_SCRIPTS = {
    "open_run",
    "configuration_rows",
    "step_rows",
    "kernel_rows",
}  # what llmprof.open gives


def used(tree: ast.AST) -> Iterator[str]:
    """Names that code reads, and words of short strings: names of modules, attributes, keys."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.keyword):
            yield node.arg or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\w+", node.value) if len(node.value) < 200 else ()


def defined(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Functions and classes wherever they are, constants of the module, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
    for statement in tree.body:
        left = statement.targets if isinstance(statement, ast.Assign) else ()
        yield from ((name.id, name.lineno) for name in left if isinstance(name, ast.Name))


def called_from_outside(name: str) -> bool:
    known = TEXTUAL | ARGPARSE | SEEN_BY_TESTS | SEEN_BY_SCRIPTS
    return bool(CALLED_BY_TEXTUAL.match(name)) or name in known


def test_every_name_is_used_where_it_is_shipped() -> None:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in SHIPPED}
    uses = Counter(name for tree in trees.values() for name in used(tree))
    assert len(uses) > 3000
    dead = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path, tree in trees.items()
        for name, line in defined(tree)
        if not uses[name] and not called_from_outside(name)
    ]
    assert dead == []
