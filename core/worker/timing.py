"""The timing probe: warm-up, measured steps, then one step more to see what really ran."""

from __future__ import annotations

import time

import torch

from llmprof.core import events as ev
from llmprof.core.worker.clock import PhaseClock, build_clock
from llmprof.core.worker.compiling import compile_step
from llmprof.core.worker.failures import describe_failure
from llmprof.core.worker.interleaving import measure_in_turns
from llmprof.core.worker.job import Job
from llmprof.core.worker.memory_edges import memory_step
from llmprof.core.worker.observe import Observer
from llmprof.core.worker.stepping import StepWriter, StopRule, quiet_gc, run_steps
from llmprof.core.worker.trainer import Stepper, Trainer


def run(job: Job) -> None:
    """Measure the job's case. Raises what the step raises."""
    trainer = build_trainer(job)
    observer = Observer(trainer)
    observer.compile_ms = compile_step(job, trainer)
    clock = build_clock(job.device, job.case.mode)
    steps = StepWriter(job)
    try:
        with quiet_gc(), job.phase_of(clock):
            observer.warmup_stop = run_steps(job, trainer, clock, steps, warmup=True)
            observer.begin()
            observer.measure_stop = measure_case(job, trainer, clock, steps)
            observer.end()
    finally:
        steps.flush()
    # What follows looks at the case; if it cannot, the measurement stands all the same.
    for name, look in (
        ("memory of a step", lambda: memory_step(job, trainer)),
        ("what ran", lambda: observer.report(job.index)),
    ):
        try:
            job.emit(look())
        except Exception as error:
            reason = describe_failure(error, None).message
            job.emit(ev.Log(case=job.index, level="warning", message=f"no {name}: {reason}"))


def measure_case(job: Job, stepper: Stepper, clock: PhaseClock, steps: StepWriter) -> str | None:
    """The measured steps, in one go or in turns with other cases; why they ended, if chosen."""
    if job.case.interleaved:
        return measure_in_turns(job, stepper, clock, steps, StopRule(job.case, warmup=False))
    return run_steps(job, stepper, clock, steps, warmup=False)


def build_trainer(job: Job) -> Trainer:
    """The case's trainer on the job's device, journalled as ModelBuilt."""
    job.phase = "build"
    start = time.monotonic_ns()
    trainer = Trainer(job.case, job.device)
    if job.device.type == "cuda":
        torch.cuda.synchronize(job.device)
    parameters = list(trainer.model.parameters())
    job.emit(
        ev.ModelBuilt(
            case=job.index,
            parameters=sum(p.numel() for p in parameters),
            parameter_tensors=len(parameters),
            parameter_dtypes=tuple(sorted({dtype_name(p.dtype) for p in parameters})),
            own_ms=job.own_ms,
            context_ms=job.context_ms,
            build_ms=(time.monotonic_ns() - start) / 1e6,
        )
    )
    return trainer


def dtype_name(dtype: torch.dtype) -> str:
    """Short name of a dtype: float32, bfloat16."""
    return str(dtype).removeprefix("torch.")
