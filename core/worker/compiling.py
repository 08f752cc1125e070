"""torch.compile, cold: an empty cache for each case, its first step timed apart, and its graphs
counted, so that what ran eagerly is never shown as compiled."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from llmprof.core.predict.command import command_of
from llmprof.core.spec.axes import CompileMode
from llmprof.core.spec.case import Case
from llmprof.core.system.text import clean, telling_line
from llmprof.core.worker.failures import Unsupported
from llmprof.core.worker.graph_breaks import listening
from llmprof.core.worker.job import Job
from llmprof.core.worker.stepper import Stepper

_DISABLING = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE")
# What torch says, anywhere in its error, where a tool is missing: what to say of it.
_TOOLS = {
    "InvalidCxxCompiler": "it needs a C++ compiler, and none works here (g++, or the one in CXX)",
    "Failed to find C compiler": "it needs a C compiler on a card (gcc, or the one in CC)",
    "CalledProcessError: Command": "its C compiler fails (gcc, or the one in CC)",
    "Python.h": "it needs the header files of Python (python3-dev)",
    "TritonMissing": "it needs triton on a card, which is not installed",
    "working triton installation": "it needs triton on a card, which is not installed",
    "GPUTooOldForTriton": "this card is too old for triton",
}


def use_empty_cache(scratch: str | None) -> None:
    """Point inductor and triton at an empty folder, so that a compilation is never a cached one.

    Must be called before anything is compiled.
    """
    if scratch is None:
        return
    folder = Path(scratch) / "inductor"
    folder.mkdir(exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")


def compiled(call: Callable[..., Any], mode: CompileMode) -> Callable[..., Any]:
    """A module or function to be compiled at its first call. Raises Unsupported."""
    try:
        return torch.compile(call, mode=mode)
    except RuntimeError as error:  # of a Python that torch can't follow
        raise Unsupported(f"torch.compile: {clean(str(error), 200)}") from error


@dataclass(frozen=True)
class Compilation:
    """The first step of a compiled case: wall milliseconds, its loss, and what was compiled."""

    ms: float
    loss: float | None
    graphs: int
    breaks: int
    first_break: str | None  # its reason and line


def compile_step(job: Job, stepper: Stepper) -> Compilation | None:
    """Run the first step of a compiled case, which compiles; None for an eager one.

    The time holds one run of the step besides the compilation of all its graphs. Raises
    Unsupported where nothing, or not all, was compiled.
    """
    if job.case.compile is None:
        return None
    job.phase = "compile"
    before = _counted()
    start = time.monotonic_ns()
    try:
        with listening() as breaks:
            loss = stepper.step(lambda index: None)
    except Exception as error:
        if (tool := _missing_tool(error)) is None:
            raise
        raise _unsupported(job.case, tool) from error
    if job.device.type == "cuda":
        torch.cuda.synchronize(job.device)
    took_ms = (time.monotonic_ns() - start) / 1e6
    counted = _counted() - before
    if (reason := _eager(counted, stepper)) is not None:
        raise _unsupported(job.case, reason)
    value = None if loss is None else loss.item()
    known = value if value is not None and math.isfinite(value) else None
    return Compilation(took_ms, known, counted.graphs, breaks.count, breaks.first)


@dataclass(frozen=True)
class Counted:
    """What torch has tried and managed to compile in this process."""

    frames: int  # of Python code that it looked into
    done: int  # of these, compiled
    graphs: int

    def __sub__(self, before: Counted) -> Counted:
        return Counted(
            self.frames - before.frames, self.done - before.done, self.graphs - before.graphs
        )


def _counted() -> Counted:
    from torch._dynamo.utils import counters

    def count(group: str, name: str) -> int:
        return int(counters[group][name])

    return Counted(count("frames", "total"), count("frames", "ok"), count("stats", "unique_graphs"))


def _eager(counted: Counted, stepper: Stepper) -> str | None:
    """Why a step that was to be compiled ran eagerly, in whole or in part; None where it didn't."""
    import torch._dynamo.config as settings

    hiding = bool(getattr(settings, "suppress_errors", False))
    if counted.graphs and not (hiding and counted.done < counted.frames):
        return None
    disabling = [name for name in _DISABLING if os.environ.get(name) == "1"]
    if disabling:
        return f"{' and '.join(disabling)} switched it off: it compiled nothing"
    if getattr(settings, "disable", False):
        return "torch._dynamo.config.disable switched it off: it compiled nothing"
    if hiding and counted.frames:
        return f"it failed, and TORCHDYNAMO_SUPPRESS_ERRORS hid that: {_hidden(stepper)}"
    return f"it compiled nothing of {counted.frames} frames that it looked into"


def _hidden(stepper: Stepper) -> str:
    """The error that was suppressed: the step is tried once more without that."""
    import torch._dynamo

    torch._dynamo.config.suppress_errors = False
    torch._dynamo.reset()
    try:
        stepper.step(lambda index: None)
    except Exception as error:
        said = f"{type(error).__name__}: {telling_line(str(error))}"
        return _missing_tool(error) or clean(said, 200)
    return "not for the same reason again"


def _missing_tool(error: BaseException) -> str | None:
    """What is missing on this machine where an error says so."""
    said = f"{type(error).__name__}: {error}"
    for name in ("CC", "CXX"):
        if (path := os.environ.get(name)) and f"No such file or directory: '{path}'" in said:
            return f"it needs a compiler, and the one in {name} is not there"
    return next((words for mark, words in _TOOLS.items() if mark in said), None)


def _unsupported(case: Case, reason: str) -> Unsupported:
    eager = msgspec.structs.replace(case, compile=None)
    instead = None if case.probe == "attention" else command_of(eager)
    return Unsupported(f"torch.compile: {reason}", instead)
