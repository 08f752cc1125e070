"""Counts the bytes of tensors as ops make and drop them, by storage."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_ADD = torch.ops.aten.add.Tensor
Scratch = Callable[[Any, tuple[Any, ...], int], int]  # of an op, its arguments, the bytes it made


@dataclass(frozen=True, slots=True)
class Allocation:
    """One op that allocated: its name, the bytes it allocated, and the highest level in it."""

    op: str
    size: int
    level: int


@dataclass(slots=True)
class PhaseSpan:
    """What happened between two phase edges."""

    name: str
    start: int
    moments: list[Allocation] = field(default_factory=list)
    end: int = 0

    @property
    def peak(self) -> int:
        """Highest level of the span."""
        return max((moment.level for moment in self.moments), default=self.start)


def in_backward() -> bool:
    """Whether autograd computes gradients; not where a checkpoint runs its blocks again."""
    return torch._C._current_graph_task_id() != -1 and not torch.is_grad_enabled()


class StorageTracker(TorchDispatchMode):
    """Keeps the level of live tensor bytes; spans are ended by `edge`.

    Gradients that meet are counted as the plain engine adds them, in place; under a dispatch
    mode it adds out of place. `scratch` says what an op holds beside its result while it runs.
    """

    def __init__(self, scratch: Scratch | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.level = 0
        self.spans: list[PhaseSpan] = []
        self.changed: Callable[[int, int], None] | None = None  # storage, bytes gained or lost
        self._scratch = scratch
        self._live: dict[int, tuple[int, Any]] = {}

    def edge(self, name: str) -> None:
        """End the current span and begin one called `name`."""
        if self.spans:
            self.spans[-1].end = self.level
        self.spans.append(PhaseSpan(name, self.level))

    def count(self, *tensors: Tensor) -> int:
        """Take tensors that exist already into the books; the bytes that were new."""
        before = self.level
        for tensor in tensors:
            self._watch(tensor)
        return self.level - before

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run the op and count the storages that it made."""
        out = func(*args, **(kwargs or {}))
        before = self.level
        if func is _ADD and self._engine_adds(args):
            self._forget(args[0])
            before = self.level
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                self._watch(leaf)
        grown = self.level - before
        if grown > 0 and self.spans:
            extra = 0 if self._scratch is None else self._scratch(func, args, grown)
            self.spans[-1].moments.append(Allocation(str(func), grown, self.level + extra))
        return out

    @staticmethod
    def _engine_adds(args: tuple[Any, ...]) -> bool:
        """Whether gradients that meet are added: a plain sum of two alike within backward."""
        if not in_backward() or len(args) != 2:
            return False
        one, other = args
        return isinstance(other, Tensor) and one.shape == other.shape and one.dtype == other.dtype

    def _watch(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._live:
            return
        size = storage.nbytes()
        self.level += size
        if self.changed is not None and size:
            self.changed(key, size)
        self._live[key] = (size, weakref.ref(storage, lambda _: self._gone(key)))

    def _forget(self, tensor: Tensor) -> None:
        self._gone(tensor.untyped_storage()._cdata)

    def _gone(self, key: int) -> None:
        size, _ = self._live.pop(key, (0, None))
        self.level -= size
        if self.changed is not None and size:
            self.changed(key, -size)
