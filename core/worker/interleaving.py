"""Measured steps in turns: cases that are compared alternate, so that drift hits all of them."""

from __future__ import annotations

from llmprof.core import events as ev
from llmprof.core.spec.experiment import TURN_STEPS
from llmprof.core.worker.clock import PhaseClock
from llmprof.core.worker.job import Job
from llmprof.core.worker.stepper import Stepper
from llmprof.core.worker.stepping import StepWriter, StopRule, one_step


def park(job: Job) -> None:
    """Tell the engine that the turn has ended and sleep until the next one."""
    job.emit(ev.Parked(case=job.index))
    job.wait_turn()


def measure_in_turns(
    job: Job, stepper: Stepper, clock: PhaseClock, steps: StepWriter, rule: StopRule
) -> str | None:
    """Run the measured steps a few at a time; each turn begins with a step that is not measured.

    Another process used the device in between, so that first step is a warm-up step again.
    """
    index = 0
    reason: str | None = None
    while index < job.case.measure_steps and reason is None:
        steps.flush()
        park(job)
        one_step(stepper, clock, steps, steps.warmed, warmup=True)
        for _ in range(min(TURN_STEPS, job.case.measure_steps - index)):
            total = one_step(stepper, clock, steps, index, warmup=False)
            index += 1
            reason = rule.take(total)
            if reason is not None:
                break
    return reason
