"""What the probes that time share: warm-up, measured steps, then looks that cost no figure."""

from __future__ import annotations

from collections.abc import Callable

from llmprof.core import events as ev
from llmprof.core.worker.clock import PhaseClock
from llmprof.core.worker.compiling import compile_step
from llmprof.core.worker.failures import describe_failure
from llmprof.core.worker.interleaving import measure_in_turns
from llmprof.core.worker.job import Job
from llmprof.core.worker.memory_edges import memory_step
from llmprof.core.worker.observe import Observer
from llmprof.core.worker.stepper import Stepper
from llmprof.core.worker.stepping import StepWriter, StopRule, quiet_gc, run_steps


def measure(job: Job, stepper: Stepper, observer: Observer, clock: PhaseClock) -> None:
    """Measure the job's case and send what was seen. Raises what a step raises."""
    observer.compilation = compile_step(job, stepper)
    steps = StepWriter(job)
    try:
        with quiet_gc(), job.phase_of(clock):
            observer.read_pace()
            observer.warmup_stop = run_steps(job, stepper, clock, steps, warmup=True)
            observer.begin()
            observer.measure_stop = _measured_steps(job, stepper, clock, steps)
            observer.end()
            observer.read_pace()
    finally:
        steps.flush()
    look(job, "memory of a step", lambda: memory_step(job, stepper))
    look(job, "what ran", lambda: observer.report(job.index))


def look(job: Job, what: str, looked: Callable[[], ev.Event]) -> None:
    """Send what a look at the measured case found; where it fails, the measurement stands."""
    try:
        job.emit(looked())
    except Exception as error:
        reason = describe_failure(error, None).message
        job.emit(ev.Log(case=job.index, level="warning", message=f"no {what}: {reason}"))


def _measured_steps(job: Job, stepper: Stepper, clock: PhaseClock, steps: StepWriter) -> str | None:
    """The measured steps, in one go or in turns with other cases; why they ended, if chosen."""
    if job.case.interleaved:
        return measure_in_turns(job, stepper, clock, steps, StopRule(job.case, warmup=False))
    return run_steps(job, stepper, clock, steps, warmup=False)
