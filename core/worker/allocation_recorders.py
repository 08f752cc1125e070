"""Record the allocations of some steps: from CUDA's allocator, or tensor by tensor on the CPU."""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Iterable, Iterator
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
from llmprof.core.memory.recompute import ENGINE, LearnedCopies, copies_in, made_again
from llmprof.core.memory.timeline import Known
from llmprof.core.spec.case import Phase
from llmprof.core.system.atomic import whole_file
from llmprof.core.worker.storage_tracker import StorageTracker
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
        copies = LearnedCopies() if cold else autocast_copies(self.trainer, self.device)
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
        # Copies are counted from a phase's first allocation, which must not be lost.
        return trace, known_of(trace, found, LearnedCopies() if trace.overflow else copies, state)

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


def known_of(
    trace: Trace,
    gradients: Iterable[dict[int, str]],
    copies: LearnedCopies | frozenset[int],
    state: dict[int, str],
) -> Known:
    """What is known of a trace, its checkpoints' second runs found; copies by ordinal or entry."""
    again = made_again(trace)
    if isinstance(copies, LearnedCopies):
        copies = copies_in(trace, copies, again)
    return Known(tuple(gradients), copies, again, state)


def autocast_copies(
    trainer: Trainer, device: torch.device, *, may_fail: bool = False
) -> LearnedCopies:
    """Which allocations are autocast's copies of weights, by their ordinals.

    Learned from a step under a dispatch mode, which is not recorded: a forward allocates the same
    with and without the mode, also that of a checkpoint within a backward. may_fail: up to where
    the step has no memory left.
    """
    if trainer.case.precision not in ("bf16", "fp16") or trainer.case.compile is not None:
        return LearnedCopies()
    counter = _CopyCounter(trainer, device)
    try:
        with counter:
            trainer.step(counter.edge)
    except torch.OutOfMemoryError:
        if not may_fail:
            raise
    return LearnedCopies(frozenset(counter.forward), frozenset(counter.again))


class _CopyCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, trainer: Trainer, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._weights = {p.data_ptr() for p in trainer.model.parameters()}
        self._device = device
        self._phases = trainer.case.sequence
        self._phase = ""
        self._start = 0
        self._run = -1  # of a checkpoint, in the backward
        self._between = True  # since it, something else has allocated
        self.forward: set[int] = set()
        self.again: set[tuple[int, int]] = set()

    def edge(self, index: int) -> None:
        """Count within the first forward and the first backward."""
        first = index < len(self._phases) and self._phases[index] not in self._phases[:index]
        self._phase = self._phases[index] if first else ""
        self._start, self._between = self._count(), True

    def _count(self) -> int:
        return int(torch.cuda.memory_stats(self._device)["allocation.all.allocated"])

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Note the ordinal of each copy of a weight."""
        copying = func is _TO_COPY and args[0].data_ptr() in self._weights
        if self._phase == "forward" and copying:
            self.forward.add(self._count() - self._start)
        if self._phase != "backward":
            return func(*args, **(kwargs or {}))
        before, again = self._count(), _in_checkpoint()
        if again and self._between:
            self._run, self._start, self._between = self._run + 1, before, False
        if again and copying:
            self.again.add((self._run, before - self._start))
        found = func(*args, **(kwargs or {}))
        self._between |= not again and self._count() > before
        return found


def _in_checkpoint() -> bool:
    """Whether Python frames lead to a checkpoint, and not by a backward within it."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != ENGINE:
        if frame.f_code.co_filename.endswith("torch/utils/checkpoint.py"):
            return True
        frame = frame.f_back
    return False


class TensorRecorder(StorageTracker):  # type: ignore[no-untyped-call]
    """Follows the storages of CPU tensors; what ops hold only inside themselves is not seen."""

    def __init__(self, trainer: Trainer) -> None:
        super().__init__()
        self.trainer = trainer
        self._weights = {p.data_ptr() for p in trainer.model.parameters()}
        self._entries: list[AllocatorEntry] = []
        self._marks: list[PhaseMark] = []
        self._stacks = Stacks()
        self._copies: set[int] = set()  # entries
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
        return trace, self._known(trace, found)

    def cut_short(self) -> tuple[Trace, Known]:
        """What was recorded of the step that raised, up to the op that failed."""
        entries = self._entries[: self.refused_at]
        last_us = entries[-1].t_us if entries else 0
        marks = list(self._marks)
        if self._opened is not None:
            step, phase, start = self._opened
            marks.append(PhaseMark(step, phase, start, max(start, last_us)))
        steps = 0 if not marks else marks[-1].step
        trace = Trace(entries, marks, self._stacks.known)
        return trace, self._known(trace, [*({} for _ in range(steps)), self._gradients()])

    def _known(self, trace: Trace, found: list[dict[int, str]]) -> Known:
        state = {
            value.untyped_storage()._cdata: name for name, value in optimizer_state(self.trainer)
        }
        return known_of(trace, found, frozenset(self._copies), state)

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

        self.trainer.step(edge)
        return found

    def _gradients(self) -> dict[int, str]:
        return {
            p.grad.untyped_storage()._cdata: name
            for name, p in self.trainer.model.named_parameters()
            if p.grad is not None
        }

    def _note(self, key: int, size: int) -> None:
        if size > 0 and self._copying:
            self._copies.add(len(self._entries))
        self._entries.append(
            AllocatorEntry(self._now(), key, size, self._stack if size > 0 else -1)
        )

    def _now(self) -> int:
        return time.perf_counter_ns() // 1000 + 2 * len(self._marks)  # edges never share a µs

    def _calling_stack(self) -> int:
        places: list[Place] = []
        frame: FrameType | None = sys._getframe(2)
        if frame is not None and frame.f_code.co_name == ENGINE:
            return -1  # autograd's own, which on a card has no frame at all
        while frame is not None:
            code = frame.f_code
            if places or code.co_filename != __file__:  # not the mode's own frames
                places.append((code.co_filename, frame.f_lineno, code.co_name))
            frame = frame.f_back
        return self._stacks.add(places)
