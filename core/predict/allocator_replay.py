"""A whole process replayed through the allocator: build, first steps, steady step.

Slower than the closed form (up to a second for 48 layers) but it knows every block, so it tells
whether a case fits where the band of the closed form cannot.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmprof.core.predict.allocator import AllocatorBlock, CachingAllocator, OutOfMemory
from llmprof.core.predict.closed_form import HOPPER, inputs, tensor_sizes, workspaces
from llmprof.core.predict.reference_step import Reference
from llmprof.core.predict.tape import Tape, Tensor
from llmprof.core.spec.case import Case

REPLAYED_STEPS = 3  # the third step takes what all later ones take
REPLAYED_MICRO_BATCHES = 3  # of a step: the first makes the gradients, further ones are alike


@dataclass(frozen=True, slots=True)
class AllocatorReplay:
    """Allocator peaks of the last step in bytes; `asked` is set when a step ran out of memory."""

    allocated_bytes: int
    reserved_bytes: int
    asked: int | None = None


def replay_allocator(
    case: Case, capability: tuple[int, int] = HOPPER, capacity: int | None = None
) -> AllocatorReplay:
    """Replay a case in an allocator that may reserve `capacity` bytes (None: no limit)."""
    allocator = CachingAllocator(capacity)
    process = _Process(case, capability, allocator)
    try:
        process.build()
        for _ in range(REPLAYED_STEPS):
            allocator.reset_peaks()
            process.step()
    except OutOfMemory as error:
        return AllocatorReplay(allocator.allocated_peak, allocator.reserved_peak, error.asked)
    return AllocatorReplay(allocator.allocated_peak, allocator.reserved_peak)


class _Process:
    def __init__(
        self, case: Case, capability: tuple[int, int], allocator: CachingAllocator
    ) -> None:
        self.case = case
        self.capability = capability
        self.allocator = allocator
        self.sizes = tensor_sizes(case.reference)
        self.state: list[AllocatorBlock] = []
        self.pending = list(workspaces(case, capability))
        self.tape: Tape | None = None

    def build(self) -> None:
        """Weights in the model's order, inputs after them."""
        for size in (*inputs(self.case)[:-2], *self.sizes, *inputs(self.case)[-2:]):
            if size:
                self.allocator.malloc(size)

    def step(self) -> None:
        """One step of the case's mode."""
        count = min(self.case.accumulate, REPLAYED_MICRO_BATCHES)
        tapes = [self._micro_batch(later=bool(at)) for at in range(count)]
        if self.case.mode == "train":
            self._optimize()
        tapes[0].kept.clear()

    def _micro_batch(self, *, later: bool) -> Tape:
        """Forward and backward of one micro-batch; its tape keeps the gradients of the first."""
        case = self.case.micro_batch
        tape = Tape(grad=case.mode != "forward", allocator=self.allocator, accumulating=later)
        model = Reference(case, case.reference.num_layers, self.capability, tape)
        model.before_linear = self._workspace
        logits: Tensor | None = model.forward()
        assert logits is not None
        if "backward" not in case.phases:
            model.cache.clear()
            del logits
            tape.forget()
            return tape
        loss = model.loss(logits)
        model.cache.clear()
        del logits
        root = tape.new(1, 4)
        self._workspace()
        tape.backward(root)
        del root, loss
        return tape

    def _workspace(self) -> None:
        if self.pending:
            self.allocator.malloc(self.pending.pop(0))

    def _optimize(self) -> None:
        allocator, kind = self.allocator, self.case.optimizer
        if not self.state:
            for size in self.sizes:
                self.state += [allocator.malloc(size) for _ in range(2)]
                if kind == "fused":
                    self.state.append(allocator.malloc(4))
        if kind == "foreach":
            for block in [allocator.malloc(size) for size in self.sizes]:
                allocator.release(block)
        elif kind == "loop":
            for size in self.sizes:
                allocator.release(allocator.malloc(size))
