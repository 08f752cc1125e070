"""Requested against observed: is the figure of what was asked, and of nothing else."""

from __future__ import annotations

import math

from llmprof.core.lint.verdict import Context, Verdict
from llmprof.core.state.view import CaseState
from llmprof.core.system.numbers import as_given, significant
from llmprof.core.system.processors import quota_text
from llmprof.core.system.text import counted

EXPLAINED = {
    "requested-observed": "What was read from tensors and settings is not what was asked for, so "
    "the figure belongs to another configuration.",
    "shared-cpu": "The process waited for a core while others ran, so its times hold theirs too.",
    "throttled": "A limit on the container's or session's processor time was used up, and the "
    "process stood still until the next period, of usually 0.1 s: its times are the limit's.",
    "not-a-number": "A loss that is NaN or infinite, or an update that was skipped for it: the "
    "step's work is not that of real training.",
    "disturbed": "Something happened in the measured steps that is no part of a step.",
}
SHARED_CPU_PERCENT = 10.0
THROTTLED_PERCENT = 1.0
# Largest relative error of an attention that rounding explains; bf16 kernels are seen at 0.006.
ROUNDING = {"fp32": 0.001, "tf32": 0.01, "fp16": 0.03, "bf16": 0.05}
_LOGITS = {"bf16": "bfloat16", "fp16": "float16"}


def requested(state: CaseState, context: Context) -> Verdict | None:
    """Differences between what was asked for and what ran."""
    wrong = unlike_request(state)
    return Verdict("requested-observed", "error", "; ".join(wrong)) if wrong else None


def unlike_request(state: CaseState) -> list[str]:
    """Each way in which the observed run is not the requested one."""
    return [*_built(state), *_steps(state), *_seen(state)]


def disturbed(state: CaseState, context: Context) -> Verdict | None:
    """Recompilations and allocator retries within the measured steps."""
    seen = state.observed
    if seen is None:
        return None
    said = []
    if seen.recompilations:
        said.append(f"{counted(seen.recompilations, 'recompilation')} in the measured steps")
    if seen.alloc_retries:
        said.append(
            "the allocator had to free its cache and try again "
            f"{counted(seen.alloc_retries, 'time')}: memory is too tight for a timing"
        )
    return Verdict("disturbed", "error", "; ".join(said)) if said else None


def shared_cpu(state: CaseState, context: Context) -> Verdict | None:
    """The process's threads had to wait for a core in the measured steps.

    Not told of a process that a quota held back: that too is counted as waiting.
    """
    waited = None if state.observed is None else state.observed.cpu_wait_percent
    if waited is None or waited < SHARED_CPU_PERCENT or throttled(state, context) is not None:
        return None
    text = f"the CPU was shared: this process waited {waited:.0f} % of its time for a core"
    return Verdict("shared-cpu", "warning", text)


def throttled(state: CaseState, context: Context) -> Verdict | None:
    """A CPU quota held the process back in the measured steps."""
    seen, environment = state.observed, context.environment
    share = None if seen is None else seen.throttled_percent
    if seen is None or share is None or share < THROTTLED_PERCENT:
        return None
    quota = None if environment is None else environment.cpu_quota
    named = "a CPU quota" if quota is None else f"the {quota_text(quota)}"
    text = f"{named} held it back for {share:.0f} % of its time"
    threads = None if environment is None else environment.threads
    if quota is not None and threads is not None and threads > quota:
        fitting = max(1, math.floor(quota))
        text += f"; {threads} threads ask for more: OMP_NUM_THREADS={fitting} would not"
    return Verdict("throttled", "warning", text)


def not_a_number(state: CaseState, context: Context) -> Verdict | None:
    """Losses that are no numbers, and updates that the GradScaler skipped."""
    said = []
    if state.bad_losses:
        steps = counted(state.steps_done, "step")
        said.append(f"the loss was NaN or infinite in {state.bad_losses} of {steps}")
    skipped = None if state.observed is None else state.observed.updates_skipped
    if skipped:
        updates = counted(skipped, "optimizer update")
        said.append(f"the GradScaler skipped {updates}, warm-up included")
    return Verdict("not-a-number", "warning", "; ".join(said)) if said else None


def _built(state: CaseState) -> list[str]:
    built, shape = state.model, state.case.shape
    if built is None or shape is None:
        return []
    wrong = []
    if built.parameters != shape.parameters:
        wrong.append(f"{built.parameters:,} parameters were built instead of {shape.parameters:,}")
    other = [dtype for dtype in built.parameter_dtypes if dtype != "float32"]
    if other:
        wrong.append(f"parameters are {', '.join(other)}, not float32")
    return wrong


def _steps(state: CaseState) -> list[str]:
    """An option that was recorded but not used shows here: steps are counted, not believed."""
    case = state.case
    if state.status != "ok" or case.probe not in ("timing", "attention"):
        return []
    wrong = []
    if case.target_percent is None and len(state.measured) != case.measure_steps:
        ran = counted(len(state.measured), "measured step")
        wrong.append(f"{ran} instead of {case.measure_steps}")
    automatic = case.warmup_auto or case.interleaved  # each turn warms up again
    if not automatic and len(state.warmup) != case.warmup_steps:
        wrong.append(f"{counted(len(state.warmup), 'warm-up step')} instead of {case.warmup_steps}")
    if state.observed is None:
        wrong.append("what really ran was not observed")
    return wrong


def _seen(state: CaseState) -> list[str]:
    seen, case = state.observed, state.case
    if seen is None:
        return []
    wrong = []
    expected = _LOGITS.get(case.precision, "float32")
    if seen.logits_dtype not in (None, expected):
        wrong.append(f"{case.precision} was asked for, but the logits are {seen.logits_dtype}")
    if seen.tf32 is not None and seen.tf32 != (case.precision == "tf32"):
        wrong.append(f"{case.precision} was asked for, but TF32 was {'on' if seen.tf32 else 'off'}")
    for name in ("batch_size", "context_length"):
        value = getattr(seen, name)
        if value not in (None, getattr(case, name)):
            wrong.append(
                f"{name.replace('_', ' ')} {value} was used instead of {getattr(case, name)}"
            )
    ran, asked = seen.attention_backend, case.sdpa_backend
    if asked is not None and ran not in (None, asked):
        wrong.append(f"SDPA's {asked} kernel was asked for, but {ran} ran")
    elif asked is None and case.attention == "sdpa" and ran == "math":
        wrong.append(
            "sdpa was asked for, but its math fallback ran, which writes the scores to memory"
        )
    if seen.parameters_changed is False:
        wrong.append("the optimizer changed no parameter")
    if seen.qkv_gradients is False:
        wrong.append("Q, K or V has no gradient")
    return [*wrong, *off_reference(state)]


def off_reference(state: CaseState) -> list[str]:
    """Results of an attention that lie farther from the reference than rounding puts them."""
    errors = None if state.observed is None else state.observed.errors
    if errors is None:
        return []
    precision = state.case.precision
    known = {"output": errors.output, "gradient of Q": errors.query, "gradient of K": errors.key,
             "gradient of V": errors.value}  # fmt: skip
    most = ROUNDING.get(precision, ROUNDING["bf16"])
    return [
        f"its {name} is {significant(error, 2)} × the reference's norm away from it, where "
        f"rounding in {precision} explains {as_given(most)}"
        for name, error in known.items()
        if error is not None and error > most
    ]
