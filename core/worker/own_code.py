"""Functions of the user's own, loaded from their files in the worker of one case."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

import torch

from llmprof.core.spec.own_function import content_of, path_and_name
from llmprof.core.spec.shape import SpecError
from llmprof.core.worker.failures import OwnModelError, Stopped


class Source(NamedTuple):
    """A function by its file, the folder of its imports, and its names."""

    path: str
    folder: str
    module: str
    function: str


@lru_cache(8)
def load_function(source: Source) -> Callable[..., Any]:
    """The function, its module imported as its own folder's. Raises what the module raises."""
    module = _module(source)
    found = getattr(module, source.function, None)
    if callable(found):
        return cast(Callable[..., Any], found)
    own = {
        name: value
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", None) == module.__name__
    }
    there = sorted(own, key=lambda name: (inspect.isclass(own[name]), name))
    has = f"it has {', '.join(there[:6])}" if there else "it defines no function"
    raise OwnModelError(f"{Path(source.path).name} has no function {source.function}; {has}")


def check_unchanged(path: str, content: str) -> None:
    """Raise OwnModelError where a file is not as it was when the run was planned.

    As under a resumed run, or one that goes on while its file is edited. content: "" is any.
    """
    try:
        if not content or content_of(Path(path), "") == content:
            return
    except SpecError as error:
        raise OwnModelError(str(error).strip()) from error
    raise OwnModelError(
        f"{Path(path).name} has changed since this run was started; a new run measures it as it is"
    )


def load_attention(value: str) -> Callable[..., Any]:
    """The function that a value of the axis attention names. Raises what its module raises."""
    path, name = path_and_name(value)
    check_unchanged(str(path), value.rpartition("#")[2])
    return load_function(Source(str(path), str(path.parent), path.stem, name))


def _module(source: Source) -> ModuleType:
    if source.folder not in sys.path:
        sys.path.insert(0, source.folder)
    if "." in source.module or Path(source.path).name == "__init__.py":
        return importlib.import_module(source.module)
    # A file may be called as a module that is loaded already, as model.py or utils.py are.
    name = source.module if source.module not in sys.modules else f"own {source.module}"
    spec = importlib.util.spec_from_file_location(name, source.path)
    if spec is None or spec.loader is None:
        raise OwnModelError(f"{source.path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        if "relative import" not in str(error):
            raise
        raise OwnModelError(
            f"{Path(source.path).name} imports relatively, as a part of a package does: name it as "
            f"package.{source.module}:{source.function}, in the folder that holds the package"
        ) from error
    return module


def wanted_arguments(function: Callable[..., Any], names: Iterable[str]) -> tuple[str, ...]:
    """Those of some names that a function has among its arguments."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ()
    return tuple(name for name in names if name in parameters)


@contextlib.contextmanager
def put_back(name: str) -> Iterator[None]:
    """Run user code called `name`; undo what it sets for the whole process; no exit ends it.

    What it imports from later is looked up in its own paths after all others.
    """
    dtype, grad, states = torch.get_default_dtype(), torch.is_grad_enabled(), _random_states()
    folder, paths = Path.cwd(), list(sys.path)
    try:
        yield
    except Stopped:
        raise
    except SystemExit as error:
        raise OwnModelError(f"{name} called sys.exit({error.code!r})") from error
    finally:
        torch.set_default_dtype(dtype)
        torch.set_default_device(None)
        torch.set_grad_enabled(grad)
        for generator, state in states:
            generator.set_state(state)
        os.chdir(folder)
        sys.path[:] = [*paths, *(path for path in sys.path if path not in paths)]


def _random_states() -> list[tuple[torch.Generator, torch.Tensor]]:
    """The states of the CPU's generator and, where CUDA is in use, of the cards'."""
    in_use: Any = torch.cuda.is_initialized
    cards = torch.cuda.default_generators if in_use() else ()
    return [(each, each.get_state()) for each in (torch.default_generator, *cards)]
