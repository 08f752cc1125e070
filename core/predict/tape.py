"""A tape of allocations: tensors that are only sizes, and autograd's order of freeing them.

Forward ops append nodes; backward runs them in the reverse order of their creation, which is the
order of torch's engine on one device (highest sequence number first, gradients of leaves at
once). A tensor lives as long as Python or a node refers to it, so the same reference counting
decides here what it decides in torch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from llmprof.core.predict.allocator import BLOCK_BYTES, SMALL, AllocatorBlock, CachingAllocator
from llmprof.core.predict.byte_levels import (
    ACTIVATIONS,
    CATEGORIES,
    GRADIENTS,
    PARAMETERS,
    TEMPORARIES,
    ZERO,
    ByteLevel,
)

Backward = Callable[["Tensor", tuple["Tensor", ...]], "tuple[Tensor | None, ...]"]


class Tensor:
    """A storage of `size` bytes; freed when the last reference to it goes.

    A leaf stands for a parameter: it has no bytes of its own, and its gradient is kept.
    """

    __slots__ = (
        "block",
        "born",
        "category",
        "grad",
        "item",
        "leaf",
        "node",
        "numel",
        "size",
        "tape",
    )

    def __init__(
        self, tape: Tape, numel: int, item: int, category: int, leaf: bool = False
    ) -> None:
        self.tape = tape
        self.numel = numel
        self.item = item
        self.category = category
        self.leaf = leaf
        self.size = 0 if leaf else numel * item
        self.node: Node | None = None
        self.grad: Tensor | None = None
        self.block: AllocatorBlock | None = None
        if self.size:
            if tape.allocator is not None:
                self.block = tape.allocator.malloc(self.size)
            tape.allocated(self.size, category)
        self.born = tape.clock

    def __del__(self) -> None:
        if self.size:
            self.tape.freed(self)
            if self.block is not None and self.tape.allocator is not None:
                self.tape.allocator.release(self.block)

    def become(self, category: int) -> None:
        """Count this tensor under another category, also at the peaks that it was alive at."""
        tape, size = self.tape, self.size
        levels = [tape.live]
        for segment in reversed(tape.segments):
            if segment.peaked < self.born:
                break
            levels.append(segment.highest)
        for level in levels:
            level[self.category] -= size
            level[category] += size
        self.category = category


class Recomputed(Exception):
    """All that a checkpoint's nodes save is there again: the rest of it is not run."""


@dataclass(eq=False, slots=True)
class Checkpoint:
    """A stretch of the forward that keeps its input alone and runs again in the backward."""

    run: Callable[[Tensor], Tensor]
    x: Tensor
    nodes: list[Node] = field(default_factory=list)  # that save something, until they have it
    found: list[tuple[Tensor, ...]] = field(default_factory=list)  # by the second run


class Node:
    """One op's backward: what it saved, and whom its gradients go to."""

    __slots__ = ("backward", "checkpoint", "grad", "saved", "segment", "targets")

    def __init__(
        self,
        targets: tuple[Tensor | None, ...],
        saved: tuple[Tensor, ...],
        backward: Backward,
        segment: int,
    ) -> None:
        self.targets: tuple[Node | Tensor | None, ...] = tuple(
            None if t is None else t if t.leaf else t.node for t in targets
        )
        self.saved = saved
        self.backward = backward
        self.grad: Tensor | None = None
        self.segment = segment
        self.checkpoint: Checkpoint | None = None


@dataclass(slots=True)
class TapeSegment:
    """A stretch of the tape: one layer of one phase. `highest` is by category, at its peak."""

    phase: str
    layer: int
    start: ByteLevel
    began: int  # moments of the tape's clock
    peaked: int
    highest: list[int]
    rounded: int
    large: int
    end: ByteLevel = ZERO

    @property
    def peak(self) -> ByteLevel:
        """The highest level."""
        return ByteLevel(tuple(self.highest), self.rounded, self.large)


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A tensor that was a temporary to its end: from which to which moment it had its bytes."""

    born: int
    died: int
    size: int


@dataclass(slots=True)
class Tape:
    """Records levels and nodes. With `grad` off, ops leave no nodes (torch.no_grad).

    accumulating: gradients are added to those of an earlier backward, which are not on the tape.
    """

    grad: bool = True
    accumulating: bool = False
    inplace: bool = True  # gradients of one tensor are added in place, as the engine does
    live: list[int] = field(default_factory=lambda: [0] * len(CATEGORIES))
    rounded: int = 0
    large: int = 0
    total: int = 0
    highest: int = -1
    nodes: list[Node] = field(default_factory=list)
    segments: list[TapeSegment] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)
    allocator: CachingAllocator | None = None
    trace: list[tuple[int, int]] | None = None
    keeping: Checkpoint | None = None  # whose first run this is
    running: Checkpoint | None = None  # whose second run this is
    clock: int = 0  # allocations and frees so far
    temporaries: list[Lifetime] | None = None  # those that have ended, where they are asked for

    def allocated(self, size: int, category: int) -> None:
        """Account for a new storage."""
        self.clock += 1
        self.live[category] += size
        self.total += size
        self.rounded += -(-size // BLOCK_BYTES) * BLOCK_BYTES
        self.large += size > SMALL
        if self.total > self.highest and self.segments:
            self.highest = self.total
            segment = self.segments[-1]
            segment.highest, segment.peaked = self.live.copy(), self.clock
            segment.rounded, segment.large = self.rounded, self.large
        if self.trace is not None:
            self.trace.append((size, self.total))

    def freed(self, tensor: Tensor) -> None:
        """Account for a freed storage."""
        size, category = tensor.size, tensor.category
        self.clock += 1
        if self.temporaries is not None and category == TEMPORARIES:
            self.temporaries.append(Lifetime(tensor.born, self.clock, size))
        self.live[category] -= size
        self.total -= size
        self.rounded -= -(-size // BLOCK_BYTES) * BLOCK_BYTES
        self.large -= size > SMALL

    def level(self) -> ByteLevel:
        """The present level."""
        return ByteLevel(tuple(self.live), self.rounded, self.large)

    def segment(self, phase: str, layer: int = -1) -> None:
        """End the current segment and begin another."""
        now = self.level()
        if self.segments:
            self.segments[-1].end = now
        clock, live = self.clock, self.live.copy()
        self.segments.append(
            TapeSegment(phase, layer, now, clock, clock, live, self.rounded, self.large)
        )
        self.highest = self.total

    def new(self, numel: int, item: int, category: int = TEMPORARIES) -> Tensor:
        """A new tensor."""
        return Tensor(self, numel, item, category)

    def parameter(self, numel: int, item: int = 4) -> Tensor:
        """A leaf; the caller counts its bytes."""
        return Tensor(self, numel, item, PARAMETERS, leaf=True)

    def record(
        self,
        out: Tensor,
        inputs: tuple[Tensor | None, ...],
        saved: tuple[Tensor, ...],
        backward: Backward,
    ) -> Tensor:
        """Make `out` the result of an op. Saved tensors become activations."""
        if not self.grad:
            return out
        if saved and self.keeping is not None:
            node = Node(inputs, (), backward, len(self.segments) - 1)
            node.checkpoint = self.keeping
            self.keeping.nodes.append(node)
        else:
            self._save(saved)
            node = Node(inputs, saved, backward, len(self.segments) - 1)
        out.node = node
        self.nodes.append(node)
        return out

    def saves_first(self, inputs: tuple[Tensor, ...]) -> None:
        """An op is about to save its inputs, before it allocates its result.

        Raises Recomputed where that was all that a second run had to find.
        """
        again = self.running
        if again is not None and len(again.found) + 1 == len(again.nodes):
            self._save(inputs)
            raise Recomputed

    def checkpointed(self, run: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Run a stretch of the forward as torch.utils.checkpoint does, not reentrant."""
        if not self.grad:
            return run(x)
        if x.category == TEMPORARIES:
            x.become(ACTIVATIONS)
        self.keeping = Checkpoint(run, x)
        try:
            return run(x)
        finally:
            self.keeping = None

    def _save(self, saved: tuple[Tensor, ...]) -> None:
        for tensor in saved:
            if tensor.category == TEMPORARIES:
                tensor.become(ACTIVATIONS)
        if saved and self.running is not None:
            self.running.found.append(saved)

    def _recompute(self, again: Checkpoint) -> None:
        """Run a checkpoint's stretch again and give its nodes what they save."""
        graph, self.nodes = self.nodes, []
        self.running = again
        with contextlib.suppress(Recomputed):
            again.run(again.x)
        self.running = None
        self.forget()  # the graph of the second run; what it saved is found
        self.nodes = graph
        for node, saved in zip(again.nodes, again.found, strict=True):
            node.saved = saved
        again.nodes.clear()
        again.found.clear()

    def backward(self, grad: Tensor, phase: str = "backward") -> None:
        """Run all nodes, newest first. A new segment starts where a node's layer changes."""
        if not self.nodes:
            return
        self.nodes[-1].grad = grad
        del grad
        made_in = -1
        while self.nodes:
            node = self.nodes.pop()
            if node.grad is None:
                node.saved = ()
                continue
            if node.segment != made_in:
                made_in = node.segment
                self.segment(phase, self.segments[made_in].layer)
            self._apply(node)

    def forget(self) -> None:
        """Drop the graph without running it, newest node first."""
        while self.nodes:
            node = self.nodes.pop()
            node.saved = node.targets = ()
            node.checkpoint = None

    def _apply(self, node: Node) -> None:
        grad, node.grad = node.grad, None
        assert grad is not None
        if node.checkpoint is not None:
            if node.checkpoint.nodes:
                self._recompute(node.checkpoint)
            node.checkpoint = None
        grads = node.backward(grad, node.saved)
        del grad
        node.saved = ()
        outputs = list(grads)
        del grads
        for at, target in enumerate(node.targets):
            given, outputs[at] = outputs[at], None
            if target is None or given is None:
                continue
            if isinstance(target, Node):
                target.grad = self._add(target.grad, given)
            else:
                self._accumulate(target, given)
            del given

    def _add(self, old: Tensor | None, new: Tensor) -> Tensor:
        if old is None:
            return new
        return old if self.inplace else self.new(old.numel, old.item)

    def _accumulate(self, leaf: Tensor, grad: Tensor) -> None:
        if self.accumulating:
            return
        if leaf.grad is not None:  # a tied weight: the second gradient is added to the first
            grad = self._add(leaf.grad, grad)
            self.kept.remove(leaf.grad)
        grad.become(GRADIENTS)
        leaf.grad = grad
        self.kept.append(grad)
