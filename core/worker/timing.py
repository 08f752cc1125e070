"""The timing probe: warm-up, measured steps, then one step more to see what really ran."""

from __future__ import annotations

import time

import torch

from llmprof.core import events as ev
from llmprof.core.worker.clock import phase_clock
from llmprof.core.worker.job import Job
from llmprof.core.worker.measuring import measure
from llmprof.core.worker.observe import TrainerObserver
from llmprof.core.worker.trainer import Trainer


def run(job: Job) -> None:
    """Measure the job's case. Raises what the step raises."""
    trainer = build_trainer(job)
    clock = phase_clock(job.device, job.case.sequence)
    measure(job, trainer, TrainerObserver(trainer), clock)


def build_trainer(job: Job) -> Trainer:
    """The case's trainer on the job's device, journalled as ModelBuilt."""
    job.phase = "build"
    start = time.monotonic_ns()
    trainer = Trainer(job.case, job.device)
    if job.device.type == "cuda":
        torch.cuda.synchronize(job.device)
    job.loss_inside = trainer.task.loss_inside
    parameters = list(trainer.model.parameters())
    job.emit(
        ev.ModelBuilt(
            case=job.index,
            parameters=sum(p.numel() for p in parameters),
            parameter_tensors=len(parameters),
            parameter_dtypes=tuple(sorted({dtype_name(p.dtype) for p in parameters})),
            own_ms=job.own_ms,
            context_ms=job.context_ms,
            form=trainer.task.form,
            loss_inside=trainer.task.loss_inside,
            unit=trainer.task.unit,
            optimizer=trainer.own_optimizer,
            build_ms=(time.monotonic_ns() - start) / 1e6,
        )
    )
    return trainer


def dtype_name(dtype: torch.dtype) -> str:
    """Short name of a dtype: float32, bfloat16."""
    return str(dtype).removeprefix("torch.")
