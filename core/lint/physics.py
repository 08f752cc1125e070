"""What a card cannot do: more operations or bytes a second than it has, or arithmetic undone.

Operations and bytes are lower bounds: where a kernel may skip the masked half of the attention,
only the other half counts, and only bytes that no cache can hold are demanded of memory.
"""

from __future__ import annotations

from llmprof.core.catalog.cards import match_device
from llmprof.core.figures.operations import operations
from llmprof.core.figures.throughput import ceiling_of, peak_of
from llmprof.core.lint.verdict import Context, Severity, Verdict, waits_for_host
from llmprof.core.predict.flops import mfu, phase_flops
from llmprof.core.spec.case import Case, Phase
from llmprof.core.state.view import CaseState
from llmprof.core.system.numbers import as_given, significant

BEYOND_CACHE = 256 << 20  # bytes: several times the largest level-2 cache
OPTIMIZER_BYTES = 28  # AdamW in fp32 reads p, g, m, v and writes p, m, v
SCORE_PASSES = 8  # products, scale, mask and softmax of unfused attention: each reads or writes L²
CALIBRATION_MARGIN = 1.15  # a calibration is one measurement, no law
TWICE = "about 2 × its arithmetic"
RATIO = (1.0, 4.0)  # backward over forward: twice the arithmetic, flash kernels up to 3.5
EXPLAINED = {
    "flops": "More operations a second than the card's dense peak: the time or its unit is wrong.",
    "mfu": "Above 100 % of the peak, so the time, the unit or the peak is wrong.",
    "bytes": "More bytes a second than the card's memory moves: the time or its unit is wrong.",
    "backward-ratio": "The backward has twice the forward's arithmetic; far from that, one of the "
    "two holds what belongs to the other, or did not run.",
}


def impossible_rates(state: CaseState, context: Context) -> Verdict | None:
    """A phase or a step whose operations a second exceed the peak."""
    limit = _flops_limit(state.case, context)
    if limit is None or state.case.probe not in ("timing", "attention"):
        return None
    tflops, name, level = limit
    for phase in ("forward", "backward"):
        flops, summary = least_flops(state.case, phase), state.summaries.get(phase)
        if flops is None or summary is None or summary.median <= 0:
            continue
        rate = flops / summary.median / 1e9
        if rate > tflops:
            text = (
                f"{phase}: {significant(rate)} TFLOP/s would be {significant(rate / tflops)} × "
                f"the {name} ({as_given(tflops)} TFLOP/s)"
            )
            return Verdict("flops", level, text)
    return _mfu(state, context)


def impossible_bytes(state: CaseState, context: Context) -> Verdict | None:
    """A phase that would move more bytes a second than the memory does."""
    limit = _bandwidth(context)
    if limit is None:
        return None
    gbs, name, level = limit
    for phase, count in least_moved_bytes(state.case).items():
        summary = state.summaries.get(phase)
        if count < BEYOND_CACHE or summary is None or summary.median <= 0:
            continue
        rate = count / summary.median / 1e6
        if rate > gbs:
            share = significant(rate / gbs)
            text = f"{phase}: at least {significant(rate)} GB/s would be {share} × the {name}"
            return Verdict("bytes", level, f"{text} ({as_given(gbs)} GB/s)")
    return None


def backward_ratio(state: CaseState, context: Context) -> Verdict | None:
    """Backward over forward of the same steps, where the device and not the host set the pace."""
    forward, backward = state.summaries.get("forward"), state.summaries.get("backward")
    if forward is None or backward is None or waits_for_host(state, context):
        return None
    if forward.median <= 0:
        return None
    ratio = backward.median / forward.median
    again = 0 if state.case.checkpoint is None else 1  # forward that a backward may run anew
    if RATIO[0] <= ratio <= RATIO[1] + again:
        return None
    for_what = "2 to 3 × its arithmetic, with what is computed again" if again else TWICE
    if state.case.shape is None:
        for_what += ", where all of an own model's weights are trained"
    text = f"backward takes {significant(ratio)} × the time of the forward, for {for_what}"
    return Verdict("backward-ratio", "warning", text)


def least_flops(case: Case, phase: Phase) -> int | None:
    """Operations of a phase that cannot be avoided."""
    if case.shape is None:
        return None
    fused = case.attention != "naive" or case.compile is not None
    return phase_flops(case, phase, "causal" if fused else "full")


def least_moved_bytes(case: Case) -> dict[Phase, int]:
    """Bytes that a phase cannot but move, by phase."""
    if case.probe == "attention":
        if case.attention != "naive" or case.compile is not None:
            return {}
        width = 4 if case.precision in ("fp32", "tf32") else 2
        return {"forward": SCORE_PASSES * width * case.batch_size * case.context_length**2}
    shape = case.shape
    if case.probe != "timing" or shape is None:
        return {}
    weights = 4 * (shape.parameters - shape.vocab_size * shape.d_model)
    found: dict[Phase, int] = {"forward": weights, "backward": weights}
    if case.mode == "train":
        found["optimizer"] = OPTIMIZER_BYTES * shape.parameters
    return found


def _mfu(state: CaseState, context: Context) -> Verdict | None:
    peak = peak_of(state.case, context.environment, context.given_peak)
    if peak is None or state.wall is None or state.case.probe != "timing":
        return None
    flops = operations(state)
    share = None if flops is None else mfu(flops, state.wall.mean / 1e3, peak.tflops)
    if share is None or share <= 1:
        return None
    text = f"MFU {100 * share:.0f} %, above the dense {peak.precision} peak of {peak.card}"
    return Verdict("mfu", "error", f"{text} ({as_given(peak.tflops)} TFLOP/s)")


def _flops_limit(case: Case, context: Context) -> tuple[float, str, Severity] | None:
    """A published limit makes an error; a calibration, which is one measurement, a warning."""
    peak = peak_of(case, context.environment, context.given_peak)
    if peak is not None:
        return peak.tflops, f"dense {peak.precision} peak of {peak.card}", "error"
    ceiling = ceiling_of(case, context.environment)
    if ceiling is None:
        return None
    name = f"calibrated {case.precision} matmul rate and a margin"
    return CALIBRATION_MARGIN * ceiling, name, "warning"


def _bandwidth(context: Context) -> tuple[float, str, Severity] | None:
    environment = context.environment
    if environment is None:
        return None
    card = match_device(environment.device_name)
    if card is not None and card.bandwidth_gbs is not None:
        return card.bandwidth_gbs, f"memory bandwidth of {card.name}", "error"
    if environment.ceilings is None or environment.ceilings.copy_gbs is None:
        return None
    name = "calibrated copy rate and a margin"
    return CALIBRATION_MARGIN * environment.ceilings.copy_gbs, name, "warning"
