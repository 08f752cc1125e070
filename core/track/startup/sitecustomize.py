"""What Python runs first under `llmprof watch`: a program is watched once it makes an optimizer.

No torch is imported here, nor anything else that the program may never need; whoever makes no
optimizer (launchers, workers of a DataLoader, tools) is left alone. Another sitecustomize, which
this one hides, is run as well.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

OPTIMIZERS = "torch.optim.optimizer"  # the module that defines Optimizer
OFF = ("", "0")  # values of LLMPROF_DISABLED that do not switch anything off


class OptimizerFinder:
    """First on sys.meta_path until torch's optimizers are imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec that the other finders have, with a word to be said once it has run."""
        if name != OPTIMIZERS:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _once_run(spec.loader)
                return spec
        return None


def _once_run(loader: Any) -> None:
    original = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        original(module)
        _at_first_optimizer(module.Optimizer)

    loader.exec_module = exec_module


def _at_first_optimizer(kind: Any) -> None:
    """Begin as the first optimizer is made; its class is then as it was."""
    original = kind.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        if kind.__init__ is __init__:
            kind.__init__ = original
            _watch()
        original(self, *args, **kwargs)

    __init__.__wrapped__ = original  # type: ignore[attr-defined]
    kind.__init__ = __init__


def _watch() -> None:
    try:
        from llmprof.core.track.watching import watch_process

        watch_process()
    except ImportError as error:
        _say(f"this training is not watched: {error}; install llmprof for {sys.executable}")
    except Exception as error:
        _say(f"this training is not watched: {type(error).__name__}: {error}")


def _say(line: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"llmprof: {line}\n")


def _run_hidden() -> None:
    """Run the sitecustomize that this one hides; what it raises is Python's to report."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    if os.environ.get("LLMPROF_DISABLED", "") in OFF:
        sys.meta_path.insert(0, OptimizerFinder())
    _run_hidden()
