"""A case that ran out of memory, once more with the allocator's history on: what was alive.

Recording slows steps, so it is off while a case is measured. What the repeat finds is sent after
the case's end, in the same process, which has let go of everything by then.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import Literal

import torch

from llmprof.core import events as ev
from llmprof.core.memory.allocator_entries import Trace, bytes_refused, read_snapshot, settle
from llmprof.core.memory.live_blocks import largest_live
from llmprof.core.memory.recompute import LearnedCopies
from llmprof.core.memory.refusals import bytes_asked
from llmprof.core.memory.timeline import Held, Known, base_of, build_timeline
from llmprof.core.spec.axes import HALVES
from llmprof.core.worker.allocation_recorders import (
    MAX_ENTRIES,
    CudaRecorder,
    TensorRecorder,
    autocast_copies,
    gradients,
    known_of,
    optimizer_state,
    requested_now,
)
from llmprof.core.worker.failures import describe_failure, is_out_of_memory
from llmprof.core.worker.job import Job
from llmprof.core.worker.memory import (
    LARGEST,
    held_tensors,
    live_allocations,
    named,
    named_tensors,
)
from llmprof.core.worker.trainer import Trainer

MOST_STEPS = 3  # the first makes the optimizer's state; what fits in the third fits
WITHIN_S = 60.0  # of its process a case must have failed in: to repeat it takes as long


def worth_repeating(job: Job, failure: ev.Failure) -> bool:
    """Whether a step of a model ran out of memory, and soon; an attention has its formulas."""
    in_steps = failure.kind == "oom" and failure.phase not in ("start", "build")
    soon = time.monotonic() - job.started < WITHIN_S
    return in_steps and soon and job.case.probe != "attention"


def repeat(job: Job) -> None:
    """Send what was alive when a repeat of the steps had no memory left, or why it isn't known."""
    gc.unfreeze()  # timed steps froze what the failed ones still refer to
    gc.collect()
    try:
        found = _record(job)
    except Exception as error:
        reason = describe_failure(error, None).message
    else:
        if found is not None:
            job.emit(found)
            return
        reason = "its steps fitted when they were run once more"
    job.emit(ev.Log(case=job.index, level="info", message=f"no history of the failure: {reason}"))


@dataclass(frozen=True)
class FailedStep:
    """What was recorded up to the moment at which there was no room."""

    trace: Trace
    held: list[Held]  # before the first entry
    base: int  # bytes then
    known: Known
    bytes_asked: int | None


def _record(job: Job) -> ev.MemoryAtFailure | None:
    """Build the case anew and record its steps until one fails; None where none does."""
    if job.device.type != "cuda":
        trainer = Trainer(job.case, job.device)
        failed = _on_cpu(trainer)
        return None if failed is None else at_failure(job.index, failed, "cpu tensors")
    copies = _copies(job)
    torch.cuda.empty_cache()
    trainer = Trainer(job.case, job.device)
    failed = FailingCudaRecorder(trainer, job.device).record_failure(MOST_STEPS, copies)
    return None if failed is None else at_failure(job.index, failed, "cuda allocator")


def _copies(job: Job) -> LearnedCopies:
    """Autocast's copies, learned on a trainer of its own, left half done."""
    if job.case.precision not in HALVES:
        return LearnedCopies()
    copies = autocast_copies(Trainer(job.case, job.device), job.device, may_fail=True)
    gc.collect()
    return copies


def at_failure(
    index: int,
    failed: FailedStep,
    source: Literal["cuda allocator", "cpu tensors"],
) -> ev.MemoryAtFailure:
    """The account of a failed step, small enough for a line of the journal."""
    trace = failed.trace
    timeline = build_timeline(trace, base_of(failed.held, failed.base), failed.held, failed.known)
    return ev.MemoryAtFailure(
        case=index,
        source=source,
        phase=trace.marks[-1].phase if trace.marks else "a step",
        bytes_asked=failed.bytes_asked,
        live=named(timeline.end),
        largest=live_allocations(largest_live(timeline, LARGEST, len(trace.entries) - 1)),
        overflow=trace.overflow,
    )


class FailingCudaRecorder(CudaRecorder):
    """Takes the snapshot inside the allocator's refusal, while everything is still alive."""

    def record_failure(self, steps: int, copies: LearnedCopies) -> FailedStep | None:
        """Run steps with the history on until one has no memory left; None where none does."""
        held = list(named_tensors(self.trainer))
        torch._C._cuda_attach_out_of_memory_observer(self.refused)  # type: ignore[attr-defined]
        first = requested_now(self.device)
        torch.cuda.memory._record_memory_history(stacks="python", max_entries=MAX_ENTRIES)
        try:
            for step in range(steps):
                self._step(step)
        except Exception as error:
            if not is_out_of_memory(error) or not self.snapshot:
                raise
            return self._failed(held, first, copies)
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)
        return None

    def refused(self, *_: int) -> None:
        """Called by the allocator when it has no room; what an earlier call saw was got over."""
        self.base = requested_now(self.device)
        self.snapshot = torch.cuda.memory._snapshot()

    def _failed(self, held: list[Held], first: int, copies: LearnedCopies) -> FailedStep:
        index = self.device.index or 0
        trace = read_snapshot(self.snapshot, index, MAX_ENTRIES)
        base = settle(trace, first, self.base)
        step = trace.marks[-1].step if trace.marks else 0
        known = known_of(
            trace,
            (*({} for _ in range(step)), gradients(self.trainer)),
            LearnedCopies() if trace.overflow else copies,
            {value.data_ptr(): name for name, value in optimizer_state(self.trainer)},
        )
        return FailedStep(trace, held, base, known, bytes_refused(self.snapshot, index))


def _on_cpu(trainer: Trainer) -> FailedStep | None:
    recorder = TensorRecorder(trainer)
    recorder.count(*(tensor for _, tensor, _ in held_tensors(trainer)))
    held, base = list(named_tensors(trainer)), recorder.level
    try:
        recorder.record(MOST_STEPS)
    except Exception as error:
        if not is_out_of_memory(error) or recorder.refused_at is None:
            raise
        trace, known = recorder.cut_short()
        return FailedStep(trace, held, base, known, bytes_asked(str(error)))
    return None
