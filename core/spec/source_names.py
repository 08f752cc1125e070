"""What a Python file defines, read from its text; nothing of it is run.

So a wrong name is said at once, and not by every case of a grid. What a text does not settle is
left to the worker that runs the file.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from llmprof.core.spec.shape import SpecError
from llmprof.core.system.text import clean

if TYPE_CHECKING:
    import ast

_MAKE_NAMES = frozenset({"globals", "locals", "vars", "exec", "eval", "setattr"})
SHOWN = 6


def check_name(path: Path, name: str, option: str) -> None:
    """Raise SpecError where a file cannot be read as Python, or certainly lacks a name."""
    tree = _tree(path, option)
    if tree is not None:
        _bound(tree, path, name, option)


def check_arguments(path: Path, name: str, given: Collection[str], filled: Collection[str]) -> None:
    """Raise SpecError where a function certainly has no such argument, or still needs one.

    filled: the arguments that are given where the function has them.
    """
    function = _plain_function(path, name)
    if function is None:
        return
    takes = function.args
    names = [each.arg for each in (*takes.args, *takes.kwonlyargs)]
    unknown = [each for each in given if each not in names]
    if unknown and takes.kwarg is None:
        has = ", ".join(names) or "none"
        raise SpecError(
            f"--model-arg {clean(unknown[0], 60)}: {path.name}:{name} has no such argument; it has "
            f"{has}{_nearest(unknown[0], names)}"
        )
    needed = [each.arg for each in takes.args[: len(takes.args) - len(takes.defaults)]]
    needed += [
        each.arg
        for each, default in zip(takes.kwonlyargs, takes.kw_defaults, strict=True)
        if default is None
    ]
    lacking = [each for each in needed if each not in given and each not in filled]
    if lacking:
        raise SpecError(
            f"--model {path.name}:{name}: its argument {lacking[0]} has no default; give "
            f"--model-arg {lacking[0]}=VALUE"
        )


@lru_cache(4)  # a form asks with every key
def _parsed(text: bytes) -> ast.Module:
    import ast  # as late as it is used: the screen's first frame does without
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the user's text, said when the file is run
        return ast.parse(text)


def _tree(path: Path, option: str) -> ast.Module | None:
    """The file's text as Python has it, None where that is too much. Raises SpecError."""
    try:
        return _parsed(path.read_bytes())
    except OSError as error:
        raise SpecError(f"{option} {clean(str(path), 200)}: {error.strerror}") from error
    except SyntaxError as error:
        where = path.name if error.lineno is None else f"{path.name}:{error.lineno}"
        raise SpecError(
            f"{option} {clean(where, 100)}: {type(error).__name__}: {clean(error.msg, 200)}"
        ) from error
    except ValueError as error:
        raise SpecError(f"{option} {path.name}: {clean(str(error), 200)}") from error
    except (RecursionError, MemoryError):
        return None


def _bound(tree: ast.Module, path: Path, name: str, option: str) -> None:
    import ast

    found = {_name_of(node) for node in ast.walk(tree)}
    if name in found or found & {"*", "__getattr__"} or any(map(_makes_names, ast.walk(tree))):
        return
    there = defined_first(tree)
    has = f"it has {', '.join(there[:SHOWN])}" if there else "it defines no function"
    raise SpecError(
        f"{option} {clean(path.name, 60)} has no function {clean(name, 60)}; {has}"
        f"{_nearest(name, there)}"
    )


def _name_of(node: ast.AST) -> str | None:
    """The name that a definition, an assignment or an import gives to something."""
    import ast

    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Name(id=name, ctx=ast.Store()):
            return name
        case ast.alias(name=name, asname=other):
            return other or name.partition(".")[0]
        case ast.MatchAs(name=name) | ast.MatchStar(name=name):
            return name
    return None


def _makes_names(node: ast.AST) -> bool:
    """Whether a place of a file may define names that its text does not show."""
    import ast

    match node:
        case ast.Name(id=name):
            return name in _MAKE_NAMES
        case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
            return True
        case ast.Attribute(attr=name):
            return name == "__dict__"
    return False


def defined_first(tree: ast.Module) -> list[str]:
    """The public names that a file defines at its top: functions, then classes."""
    import ast

    functions = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
    classes = [each.name for each in tree.body if isinstance(each, ast.ClassDef)]
    return [each for each in (*functions, *classes) if not each.startswith("_")]


def _plain_function(path: Path, name: str) -> ast.FunctionDef | None:
    """The one function of a name at a file's top, where nothing else makes it another."""
    import ast

    tree = _tree(path, "--model")
    if tree is None:
        return None
    bound = [node for node in ast.walk(tree) if _name_of(node) == name]
    only = bound[0] if len(bound) == 1 else None
    if not isinstance(only, ast.FunctionDef) or only not in tree.body:
        return None
    return None if only.decorator_list or only.args.posonlyargs else only


def _nearest(name: str, names: Collection[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {near[0]}?" if near else ""
