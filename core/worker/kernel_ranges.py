"""Ranges around phases, modules, attention stages and source lines, for the kernels probe only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import einops
import torch
from torch import Tensor, nn
from torch._C._profiler import _RecordFunctionFast
from torch.overrides import TorchFunctionMode

from llmprof.core.kernels import attention_stages, range_names
from llmprof.core.spec.case import Phase
from llmprof.core.worker.clock import PhaseClock
from llmprof.core.worker.model import NaiveAttention, SelfAttention

_LIBRARIES = tuple(
    f"{Path(module.__file__ or module.__name__).parent}/" for module in (torch, einops)
)


class Range:
    """A named range that is opened and closed many times, in the profile and for Nsight.

    It is an op range and not a user annotation: those leave a shadow on the card's lanes that
    is easily counted as kernels, and cost twenty times more.
    """

    def __init__(self, name: str, *, nvtx: bool) -> None:
        self._name = name.removeprefix(range_names.RANGE_PREFIX)
        self._record = _RecordFunctionFast(name)
        self._nvtx = nvtx

    def open(self) -> None:
        """Begin it."""
        if self._nvtx:
            torch.cuda.nvtx.range_push(self._name)  # type: ignore[no-untyped-call]
        self._record.__enter__()

    def close(self) -> None:
        """End it."""
        self._record.__exit__(None, None, None)
        if self._nvtx:
            torch.cuda.nvtx.range_pop()  # type: ignore[no-untyped-call]

    @contextmanager
    def within(self) -> Iterator[None]:
        """The range around what runs within this context."""
        self.open()
        try:
            yield
        finally:
            self.close()

    def around(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """The function with this range around each call."""

        def ranged(*args: Tensor) -> Tensor:
            self.open()
            try:
                return function(*args)
            finally:
                self.close()

        return ranged


class PhaseMarks:
    """A phase clock whose edges also close one range and open the next."""

    def __init__(self, clock: PhaseClock, phases: tuple[Phase, ...], *, nvtx: bool) -> None:
        self._clock = clock
        self._ranges = [Range(range_names.PHASE_RANGE + phase, nvtx=nvtx) for phase in phases]
        self.step = Range(range_names.STEP_RANGE, nvtx=nvtx)

    def edge(self, index: int) -> None:
        """Mark a phase edge."""
        if index:
            self._ranges[index - 1].close()
        self._clock.edge(index)
        if index < len(self._ranges):
            self._ranges[index].open()


def mark_modules(model: nn.Module, *, nvtx: bool) -> None:
    """Put a range around the forward of every module below the model."""
    for path, module in model.named_modules():
        if path and not isinstance(module, nn.ModuleList):
            around = Range(range_names.MODULE_RANGE + path, nvtx=nvtx)
            module.register_forward_pre_hook(_opening(around))
            module.register_forward_hook(_closing(around), always_call=True)


def mark_attention(model: nn.Module, layer: int, *, nvtx: bool) -> None:
    """Put a range around each stage of one layer's attention core."""
    blocks = [module for module in model.modules() if isinstance(module, SelfAttention)]
    core = blocks[layer].core
    names = (
        (
            attention_stages.SCORES,
            attention_stages.MASK,
            attention_stages.SOFTMAX,
            attention_stages.VALUES,
        )
        if isinstance(core, NaiveAttention)
        else ("forward",)
    )
    for stage in names:
        label = attention_stages.FUSED if stage == "forward" else stage
        around = Range(range_names.LENS_RANGE + label, nvtx=nvtx)
        setattr(core, stage, around.around(getattr(core, stage)))


class SourceMode(TorchFunctionMode):
    """While active, every torch call stands in a range named by the line that made it.

    The line is the innermost outside torch and einops. What autograd launches is found through
    the forward op, whose range this is.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the call in its range."""
        with _RecordFunctionFast(range_names.SOURCE_RANGE + _line(sys._getframe(1))):
            return func(*args, **(kwargs or {}))


def _line(frame: FrameType | None) -> str:
    while frame is not None and _is_library(frame.f_code):
        frame = frame.f_back
    if frame is None:
        return "unknown"
    path = Path(frame.f_code.co_filename)
    return f"{path.parent.name}/{path.name}:{frame.f_lineno} in {frame.f_code.co_name}"


def _is_library(code: CodeType) -> bool:
    name = code.co_filename
    return name.startswith((*_LIBRARIES, "<")) or name.endswith("/contextlib.py")


def _opening(around: Range) -> Callable[..., None]:
    def hook(module: nn.Module, args: Any) -> None:
        around.open()

    return hook


def _closing(around: Range) -> Callable[..., None]:
    def hook(module: nn.Module, args: Any, output: Any) -> None:
        around.close()

    return hook
