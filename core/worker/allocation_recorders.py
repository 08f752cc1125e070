"""Record the allocations of some steps: from CUDA's allocator, or tensor by tensor on the CPU."""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from llmprof.core.memory.allocator_entries import (
    AllocatorEntry,
    PhaseMark,
    Place,
    Stacks,
    Trace,
    read_snapshot,
    settle,
)
from llmprof.core.memory.timeline import Known
from llmprof.core.spec.case import Phase
from llmprof.core.system.atomic import whole_file
from llmprof.core.worker.storage_tracker import StorageTracker, in_backward
from llmprof.core.worker.trainer import Trainer

MAX_ENTRIES = 400_000  # three an allocation; a step of 48 layers makes about 60,000
_TO_COPY = torch.ops.aten._to_copy.default


def gradients(trainer: Trainer) -> dict[int, str]:
    """Address of every gradient and the name of its parameter."""
    return {
        p.grad.data_ptr(): name
        for name, p in trainer.model.named_parameters()
        if p.grad is not None
    }


def optimizer_state(trainer: Trainer) -> Iterator[tuple[str, Tensor]]:
    """The optimizer's tensors that lie with their parameters, each with its name."""
    if trainer.optimizer is None:
        return
    names: dict[Tensor, str] = {p: name for name, p in trainer.model.named_parameters()}
    for owner, state in trainer.optimizer.state.items():
        for key, value in state.items():
            if isinstance(value, Tensor) and value.device == owner.device:
                yield f"{key} of {names[owner]}", value


def requested_now(device: torch.device) -> int:
    """Bytes that the allocator has given out."""
    return int(torch.cuda.memory_stats(device)["requested_bytes.all.current"])


class CudaRecorder:
    """Uses the allocator's own history, with Python stacks and phases as annotations."""

    def __init__(self, trainer: Trainer, device: torch.device) -> None:
        self.trainer = trainer
        self.device = device
        self.snapshot: dict[str, Any] = {}
        self.requested_peak = 0
        self.allocated_peak = 0
        self.base = 0  # requested bytes before the first entry

    def record(self, steps: int) -> tuple[Trace, Known]:
        """Run steps with the history on.

        Without warm-up the first of them is the first of all; else copies are learned before.
        """
        cold = self.trainer.case.warmup_steps == 0
        copies = frozenset[int]() if cold else autocast_copies(self.trainer, self.device)
        found: list[dict[int, str]] = []
        torch.cuda.synchronize(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        first = requested_now(self.device)
        torch.cuda.memory._record_memory_history(stacks="python", max_entries=MAX_ENTRIES)
        try:
            for step in range(steps):
                found.append(self._step(step))
            torch.cuda.synchronize(self.device)
            stats = torch.cuda.memory_stats(self.device)
            self.requested_peak = stats["requested_bytes.all.peak"]
            self.allocated_peak = stats["allocated_bytes.all.peak"]
            last = requested_now(self.device)
            self.snapshot = torch.cuda.memory._snapshot()
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)
        state = {value.data_ptr(): name for name, value in optimizer_state(self.trainer)}
        trace = read_snapshot(self.snapshot, self.device.index or 0, MAX_ENTRIES)
        self.base = settle(trace, first, last)
        if cold:
            copies = autocast_copies(self.trainer, self.device)
        # Copies are counted from a forward's first allocation, which must not be lost.
        return trace, Known(tuple(found), frozenset() if trace.overflow else copies, state)

    def _step(self, step: int) -> dict[int, str]:
        phases = self.trainer.case.sequence
        running: list[torch.profiler.record_function] = []
        found: dict[int, str] = {}

        def edge(index: int) -> None:
            if running:
                running.pop().__exit__(None, None, None)
            if index and phases[index - 1] == "backward":
                found.update(gradients(self.trainer))
            if index < len(phases):
                running.append(torch.profiler.record_function(f"phase {step} {phases[index]}"))
                running[-1].__enter__()  # type: ignore[no-untyped-call]

        self.trainer.step(edge)
        return found

    def dump(self, path: Path) -> None:
        """Write the snapshot as pytorch.org/memory_viz reads it. Raises OSError."""
        with whole_file(path) as draft, draft.open("wb") as file:
            pickle.dump(self.snapshot, file)


def autocast_copies(
    trainer: Trainer, device: torch.device, *, may_fail: bool = False
) -> frozenset[int]:
    """Which allocations of a forward are autocast's copies of weights, by their ordinal.

    Learned from a step under a dispatch mode, which is not recorded: forward allocates the same
    with and without the mode. may_fail: up to where the step has no memory left.
    """
    if trainer.case.precision not in ("bf16", "fp16") or trainer.case.compile is not None:
        return frozenset()
    counter = _CopyCounter(trainer, device)
    try:
        with counter:
            trainer.step(counter.edge)
    except torch.OutOfMemoryError:
        if not may_fail:
            raise
    return frozenset(counter.copies)


class _CopyCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, trainer: Trainer, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._weights = {p.data_ptr() for p in trainer.model.parameters()}
        self._device = device
        self._start = 0
        self._forward = False
        self.copies: list[int] = []

    def edge(self, index: int) -> None:
        """Count within the forward only."""
        self._forward = index == 0
        if self._forward:
            self._start = self._count()

    def _count(self) -> int:
        return int(torch.cuda.memory_stats(self._device)["allocation.all.allocated"])

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Note the ordinal of each copy of a weight."""
        if self._forward and func is _TO_COPY and args[0].data_ptr() in self._weights:
            self.copies.append(self._count() - self._start)
        return func(*args, **(kwargs or {}))


class TensorRecorder(StorageTracker):  # type: ignore[no-untyped-call]
    """Follows the storages of CPU tensors; what ops hold only inside themselves is not seen."""

    def __init__(self, trainer: Trainer) -> None:
        super().__init__(as_cuda=False)
        self.trainer = trainer
        self._weights = {p.data_ptr() for p in trainer.model.parameters()}
        self._entries: list[AllocatorEntry] = []
        self._marks: list[PhaseMark] = []
        self._stacks = Stacks()
        self._copies: set[int] = set()
        self._ordinal = 0
        self._stack = -1
        self._copying = False
        self._opened: tuple[int, Phase, int] | None = None  # step, phase, start
        self.refused_at: int | None = None  # entries before an op failed, the last that did

    def record(self, steps: int) -> tuple[Trace, Known]:
        """Run steps under the tracker."""
        found: list[dict[int, str]] = []
        self.changed = self._note
        try:
            with self:
                for step in range(steps):
                    found.append(self._step(step))
        finally:
            self.changed = None
        trace = Trace(self._entries, self._marks, self._stacks.known)
        return trace, self._known(found)

    def cut_short(self) -> tuple[Trace, Known]:
        """What was recorded of the step that raised, up to the op that failed."""
        entries = self._entries[: self.refused_at]
        last_us = entries[-1].t_us if entries else 0
        marks = list(self._marks)
        if self._opened is not None:
            step, phase, start = self._opened
            marks.append(PhaseMark(step, phase, start, max(start, last_us)))
        steps = 0 if not marks else marks[-1].step
        return Trace(entries, marks, self._stacks.known), self._known(
            [*({} for _ in range(steps)), self._gradients()]
        )

    def _known(self, found: list[dict[int, str]]) -> Known:
        state = {
            value.untyped_storage()._cdata: name for name, value in optimizer_state(self.trainer)
        }
        return Known(tuple(found), frozenset(self._copies), state)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the op; its outputs are noted with the Python lines that led to it."""
        self._stack = self._calling_stack()
        self._copying = (
            func is _TO_COPY and isinstance(args[0], Tensor) and args[0].data_ptr() in self._weights
        )
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        except Exception:
            self.refused_at = len(self._entries)
            raise

    def _step(self, step: int) -> dict[int, str]:
        phases = self.trainer.case.sequence
        found: dict[int, str] = {}

        def edge(index: int) -> None:
            now = self._now()
            if self._opened is not None:
                self._marks.append(PhaseMark(*self._opened, now))
            if index and phases[index - 1] == "backward":
                found.update(self._gradients())
            self._opened = (step, phases[index], now + 1) if index < len(phases) else None
            self._ordinal = 0

        self.trainer.step(edge)
        return found

    def _gradients(self) -> dict[int, str]:
        return {
            p.grad.untyped_storage()._cdata: name
            for name, p in self.trainer.model.named_parameters()
            if p.grad is not None
        }

    def _note(self, key: int, size: int) -> None:
        if size > 0:
            if self._copying:
                self._copies.add(self._ordinal)
            self._ordinal += 1
        self._entries.append(
            AllocatorEntry(self._now(), key, size, self._stack if size > 0 else -1)
        )

    def _now(self) -> int:
        return time.perf_counter_ns() // 1000 + 2 * len(self._marks)  # edges never share a µs

    def _calling_stack(self) -> int:
        if in_backward():
            return -1
        places: list[Place] = []
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            code = frame.f_code
            if places or code.co_filename != __file__:  # not the mode's own frames
                places.append((code.co_filename, frame.f_lineno, code.co_name))
            frame = frame.f_back
        return self._stacks.add(places)
