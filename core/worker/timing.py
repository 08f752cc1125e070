"""The timing probe: warm-up, measured steps, then one step more to see what really ran."""

from __future__ import annotations

import gc
import math
import time

import torch
from torch import Tensor

from llmprof.core import events as ev
from llmprof.core.worker.clock import PhaseClock, StepTimes, build_clock, spread
from llmprof.core.worker.job import Job
from llmprof.core.worker.memory_edges import memory_step
from llmprof.core.worker.observe import Observer
from llmprof.core.worker.trainer import Trainer

FLUSH_S = 0.05


def run(job: Job) -> None:
    """Measure the job's case. Raises what the step raises."""
    trainer = build(job)
    observer = Observer(trainer)
    clock = build_clock(job.device, job.case.mode)
    steps = StepWriter(job)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        with job.phase_of(clock):
            measure(job, trainer, clock, steps, warmup=True)
            observer.begin()
            measure(job, trainer, clock, steps, warmup=False)
            observer.end()
    finally:
        gc.enable()
        steps.flush()
    job.phase = "memory"
    job.emit(memory_step(job, trainer))
    job.emit(observer.report(job.index))


def build(job: Job) -> Trainer:
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


def measure(
    job: Job, trainer: Trainer, clock: PhaseClock, steps: StepWriter, *, warmup: bool
) -> None:
    """Run the warm-up or the measured steps of a case."""
    count = job.case.warmup_steps if warmup else job.case.measure_steps
    for index in range(count):
        clock.start()
        loss = trainer.step(clock.edge)
        times = clock.stop()
        steps.write(index, times, loss, warmup=warmup)


class StepWriter:
    """Sends steps to the engine between steps, several at a time when they are short."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._waiting: list[ev.Event] = []
        self._flushed = time.monotonic()
        self._cuda = job.device if job.device.type == "cuda" else None

    def write(self, index: int, times: StepTimes, loss: Tensor | None, *, warmup: bool) -> None:
        """Take a step that has ended; its loss is read here, after the clock has stopped."""
        mode = self._job.case.mode
        value = None if loss is None else loss.item()
        self._waiting.append(
            ev.StepDone(
                case=self._job.index,
                index=index,
                warmup=warmup,
                start_ns=times.start_ns,
                wall_ms=times.wall_ms,
                total_ms=math.fsum(times.device_ms),
                device_ms=spread(mode, times.device_ms),
                host_ms=spread(mode, times.host_ms),
                loss=value if value is not None and math.isfinite(value) else None,
                allocated_bytes=(
                    None if self._cuda is None else torch.cuda.memory_allocated(self._cuda)
                ),
            )
        )
        if time.monotonic() - self._flushed >= FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Send what waits."""
        if self._waiting:
            self._job.emit(*self._waiting)
            self._waiting.clear()
        self._flushed = time.monotonic()


def dtype_name(dtype: torch.dtype) -> str:
    """Short name of a dtype: float32, bfloat16."""
    return str(dtype).removeprefix("torch.")
