"""The memory probe: bytes at the phase edges, then two steps recorded allocation by allocation.

The process is never used for timing: recording slows its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from llmprof.core import events as ev
from llmprof.core.memory.kept_timeline import save, thin
from llmprof.core.memory.live_blocks import LiveBlock, largest_live
from llmprof.core.memory.timeline import Held, Timeline, base_of, build_timeline
from llmprof.core.predict.byte_levels import CATEGORIES, INPUTS, OPTIMIZER, PARAMETERS
from llmprof.core.spec.experiment import RECORDED_STEPS
from llmprof.core.worker import timing
from llmprof.core.worker.allocation_recorders import (
    CudaRecorder,
    TensorRecorder,
    optimizer_state,
)
from llmprof.core.worker.card import card_of_device, cards_now, used_bytes
from llmprof.core.worker.compiling import compile_step
from llmprof.core.worker.job import Job
from llmprof.core.worker.memory_edges import memory_step
from llmprof.core.worker.optional_parts import tried
from llmprof.core.worker.saved_bytes import saved_bytes
from llmprof.core.worker.trainer import Trainer, autocast

LARGEST = 20


def run(job: Job) -> None:
    """Record the job's case. Raises what the step raises.

    What was found is sent before a snapshot of it is written. Without warm-up the recorded steps
    are the first of all, so that the birth of the optimizer's state is in them.
    """
    trainer = timing.build_trainer(job)
    compile_step(job, trainer)
    job.phase = "warm-up"
    for _ in range(job.case.warmup_steps):
        trainer.step(lambda index: None)
    looks = [_look_at_edges, _record] if job.case.warmup_steps else [_record, _look_at_edges]
    for look in looks:
        look(job, trainer)


def _look_at_edges(job: Job, trainer: Trainer) -> None:
    job.phase = "memory"
    job.emit(memory_step(job, trainer))


def _record(job: Job, trainer: Trainer) -> None:
    job.phase = "recording"
    for found in record(job, trainer):
        job.emit(found)


def record(job: Job, trainer: Trainer) -> Iterator[ev.MemoryTimeline]:
    """Record steps and reduce them to a timeline, whose points go to an artifact.

    It is given once more when a snapshot was asked for, with it or with why there is none.
    """
    held = list(named_tensors(trainer))
    if job.device.type != "cuda":
        yield _record_cpu(job, trainer, held)
        return
    recorder = CudaRecorder(trainer, job.device)
    found = _record_cuda(job, trainer, held, recorder)
    yield found
    if job.case.trace:
        yield with_snapshot(job, found, recorder.dump)


def with_snapshot(
    job: Job, found: ev.MemoryTimeline, dump: Callable[[Path], None]
) -> ev.MemoryTimeline:
    """The timeline with the snapshot that dump writes, or with why there is none."""
    name, missing = f"snapshot-{job.index}.pickle", list(found.missing)
    tried("snapshot", lambda: dump(job.artifacts / name), missing)
    kept = name if len(missing) == len(found.missing) else None
    return msgspec.structs.replace(found, snapshot=kept, missing=tuple(missing))


def _record_cuda(
    job: Job, trainer: Trainer, held: list[Held], recorder: CudaRecorder
) -> ev.MemoryTimeline:
    trace, known = recorder.record(RECORDED_STEPS)
    timeline = build_timeline(trace, base_of(held, recorder.base), held, known)
    free, total = torch.cuda.mem_get_info(job.device)
    return _event(
        job,
        trainer,
        timeline,
        "cuda allocator",
        requested_peak_bytes=recorder.requested_peak,
        allocated_peak_bytes=recorder.allocated_peak,
        allocated_bytes=torch.cuda.memory_allocated(job.device),
        reserved_bytes=torch.cuda.memory_reserved(job.device),
        driver_used_bytes=total - free,
        driver_before_bytes=used_bytes(card_of_device(job.cards, job.device)),
        card=card_of_device(cards_now(), job.device),
    )


def _record_cpu(job: Job, trainer: Trainer, held: list[Held]) -> ev.MemoryTimeline:
    recorder = TensorRecorder(trainer)
    recorder.count(*(tensor for _, tensor, _ in held_tensors(trainer)))
    base = base_of(held, recorder.level)
    trace, known = recorder.record(RECORDED_STEPS)
    return _event(job, trainer, build_timeline(trace, base, held, known), "cpu tensors")


def _event(
    job: Job,
    trainer: Trainer,
    timeline: Timeline,
    source: str,
    **measured: int | str | ev.CardSample | None,
) -> ev.MemoryTimeline:
    name = f"memory-{job.index}.json.gz"
    missing: list[str] = []
    tried("timeline to draw", lambda: save(thin(timeline), job.artifacts / name), missing)
    return ev.MemoryTimeline(
        case=job.index,
        artifact=None if missing else name,
        missing=tuple(missing),
        source=source,  # type: ignore[arg-type]
        steps=RECORDED_STEPS,
        entries=len(timeline.trace.entries),
        overflow=timeline.trace.overflow,
        peak_bytes=timeline.peak,
        at_peak=named(timeline.at_peak),
        before=named(timeline.base),
        after=named(timeline.end),
        phases=tuple(
            ev.MemoryPhase(
                step=span.step, phase=span.phase, peak_bytes=span.peak, after_bytes=span.after
            )
            for span in timeline.spans
        ),
        largest=live_allocations(largest_live(timeline, LARGEST)),
        saved=_saved(trainer),
        **measured,  # type: ignore[arg-type]
    )


def live_allocations(blocks: Iterable[LiveBlock]) -> tuple[ev.LiveAllocation, ...]:
    """Live blocks as events have them."""
    return tuple(
        ev.LiveAllocation(
            size=each.size,
            count=each.count,
            category=each.category,
            phase=each.phase,
            what=each.what,
            stack=each.stack,
        )
        for each in blocks
    )


def named(levels: tuple[int, ...]) -> dict[str, int]:
    """Bytes by category, without those of which there are none."""
    return {name: size for name, size in zip(CATEGORIES, levels, strict=True) if size}


def _saved(trainer: Trainer) -> tuple[ev.SavedBytes, ...]:
    """Saved bytes by module of one forward; a compiled model saves as one graph.

    Of checkpointed blocks torch hides what they would save: then there is no table either.
    """
    case = trainer.case
    hidden = case.compile is not None or case.blocks_a_checkpoint is not None
    if case.mode == "forward" or hidden:
        return ()

    def forward() -> Any:
        with autocast(case.precision, trainer.device):
            return trainer.forward(trainer.micro_batches[0])

    return saved_bytes(trainer.model, forward)


def named_tensors(trainer: Trainer) -> Iterator[Held]:
    """What a warmed-up trainer holds between steps; a storage is named once."""
    seen: set[int] = set()
    for name, tensor, category in held_tensors(trainer):
        storage = tensor.untyped_storage()
        if storage._cdata not in seen:
            seen.add(storage._cdata)
            yield Held(name, storage.nbytes(), category)


def held_tensors(trainer: Trainer) -> Iterator[tuple[str, Tensor, int]]:
    """Name, tensor and category of what a trainer holds; a storage may be there twice."""
    for name, p in trainer.model.named_parameters():
        yield name, p, PARAMETERS
    for name, buffer in trainer.model.named_buffers():
        yield name, buffer, INPUTS
    for name, tensor in trainer.task.tensors:
        yield name, tensor, INPUTS
    for name, value in optimizer_state(trainer):
        yield name, value, OPTIMIZER
