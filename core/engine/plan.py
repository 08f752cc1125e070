"""What the engine decides before a case runs; pure functions of case and environment."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from llmprof.core.catalog.experiments import DEFAULT
from llmprof.core.events import SKIPPED, Environment, Failure, Predicted
from llmprof.core.predict.as_event import predicted_here
from llmprof.core.predict.command import command_of
from llmprof.core.predict.flops import forward_flops, lower_bound_bytes, recomputed_flops
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import Experiment
from llmprof.core.stats.stopping import MEASURE_BUDGET_S, WARMUP_BUDGET_S, WINDOW
from llmprof.core.system.text import duration

EFFICIENCY = 0.6  # of the matmul rate, in a whole step
BYTES_PER_SECOND = {"cpu": 8e9, "cuda": 1.5e12}  # for the optimizer's pass over its state
OPTIMIZER_BYTES = 28  # read p, g, m, v; write p, m, v; fp32
SPEEDUP = {"fp32": 1.0, "tf32": 4.0, "bf16": 6.0, "fp16": 6.0}  # on CUDA, of matrix products
SCORE_PASSES = 8  # reads and writes of the scores in a forward of unfused attention
# Of compiling one graph, cold; a backward is a second one. Read off recorded runs.
COMPILE_S = {"cpu": 17.5, "cuda": 3.5}
COMPILE_ATTENTION_S = {"cpu": 4.5, "cuda": 0.75}  # alone
COMPILE_LAYER_S = {"cpu": 1.0, "cuda": 1.25}
START_ESTIMATE_S = {"cpu": 0.5, "cuda": 1.5}
LAUNCH_S = 3e-3  # a layer's launches in one step of all phases


def estimate_s(case: Case, environment: Environment) -> float | None:
    """Rough seconds that a case takes, start-up included; None where nothing tells a rate.

    So it is without a matmul rate, and for a model of the user's own.
    """
    shape = case.shape
    if not environment.matmul_tflops or shape is None:
        return None
    kind = "cuda" if environment.device.startswith("cuda") else "cpu"
    passes = {"forward": 1, "forward-grad": 1, "forward-backward": 3, "train": 3}[case.mode]
    rate = environment.matmul_tflops * 1e12 * EFFICIENCY
    if kind == "cuda":
        rate *= SPEEDUP[case.precision]
    step = (passes * forward_flops(case) + recomputed_flops(case)) / rate
    if case.probe == "attention" and case.attention == "naive":  # waits for memory
        scores = 4 * case.batch_size * case.context_length**2
        step = max(step, SCORE_PASSES * passes * scores / BYTES_PER_SECOND[kind])
    if kind == "cuda":
        step = max(step, shape.num_layers * LAUNCH_S * passes / 4)
    if case.mode == "train":
        step += OPTIMIZER_BYTES * shape.parameters / BYTES_PER_SECOND[kind]
    build = 16 * shape.parameters / BYTES_PER_SECOND[kind]
    if case.compile is not None:
        build += _compile_s(case, shape.num_layers, kind)
    return START_ESTIMATE_S[kind] + build + _steps_s(case, step)


def _compile_s(case: Case, layers: int, kind: str) -> float:
    graph = (COMPILE_ATTENTION_S if case.probe == "attention" else COMPILE_S)[kind]
    return (2 if "backward" in case.phases else 1) * (graph + COMPILE_LAYER_S[kind] * layers)


def _steps_s(case: Case, step_s: float) -> float:
    """Seconds of all steps; automatic numbers of steps end at their time limits."""
    warmup, measured = case.warmup_steps * step_s, case.measure_steps * step_s
    if case.warmup_auto:
        warmup = min(2 * WINDOW * step_s, WARMUP_BUDGET_S)
    if case.target_percent is not None:
        measured = min(measured, MEASURE_BUDGET_S)
    return warmup + measured + 2 * step_s  # two more look at memory and dtypes


def left_out(
    cases: Sequence[Case],
    estimates: Sequence[float | None],
    budget_s: float | None,
    experiment: str = DEFAULT,
) -> dict[int, Failure]:
    """Cases whose estimates would exceed the budget, by what is measured or left out as a whole.

    The first is measured in any case, or the run would be empty; one without an estimate, too.
    """
    if budget_s is None:
        return {}
    run = "llmprof run" if experiment == DEFAULT else f"llmprof run {experiment}"
    spent = 0.0
    skipped: dict[int, Failure] = {}
    for own in _wholes(cases, estimates, budget_s):
        need = _sum(own, estimates)
        if need is None:
            continue
        if not spent or spent + need <= budget_s:
            spent += need
            continue
        whole = all(i in own for i in range(len(cases)) if cases[i].model == cases[own[0]].model)
        skipped |= {i: _over_budget(cases[i], need, budget_s, run, whole) for i in own}
    return skipped


def _wholes(
    cases: Sequence[Case], estimates: Sequence[float | None], budget_s: float
) -> list[list[int]]:
    """Cases that are taken together: those of a model, in order.

    Where the first model's are too many, and in attention's grid, whose lengths differ far more
    than its widths, those of a cell, which differ in switches alone; cheapest first.
    """
    models: dict[str, list[int]] = {}
    for index, case in enumerate(cases):
        models.setdefault(case.model.name, []).append(index)
    first, *others = models.values()
    attention = all(case.probe == "attention" for case in cases)
    if not attention and (_sum(first, estimates) or 0.0) <= budget_s:
        return [first, *others]
    cells: dict[tuple[str, int, int, str], list[int]] = {}
    for index in range(len(cases)) if attention else first:
        case = cases[index]
        cell = (case.model.name, case.context_length, case.batch_size, case.mode)
        cells.setdefault(cell, []).append(index)
    cheapest = sorted(cells.values(), key=lambda own: _sum(own, estimates) or 0.0)
    return cheapest if attention else [*cheapest, *others]


def _sum(own: Sequence[int], estimates: Sequence[float | None]) -> float | None:
    known = [estimate for i in own if (estimate := estimates[i]) is not None]
    return sum(known) if len(known) == len(own) else None


def _over_budget(case: Case, need_s: float, budget_s: float, run: str, whole: bool) -> Failure:
    """Why a case is left out, and the command that measures it all the same."""
    about = f"would take about {duration(need_s)} here"
    if case.probe == "attention":
        size = f"--d-model {case.reference.d_model} --context-length {case.context_length}"
    else:
        size = f"--model-size {case.model.name}"
    if whole and case.probe != "attention":
        message = f"{about}; without --model-size the sizes share {budget_s:.0f} s"
    else:
        message = f"{about}; on a CPU the cells share {budget_s:.0f} s, the cheapest first"
        if case.probe != "attention":
            size += f" --context-length {case.context_length} --batch-size {case.batch_size}"
            size += f" --mode {case.mode}"
    return Failure(kind=SKIPPED, message=message, instead=f"{run} {size}")


def warnings(experiment: Experiment, environment: Environment) -> list[str]:
    """What an experiment asks for and this device cannot give, though its cases can run."""
    if experiment.snapshot and not environment.device.startswith("cuda"):
        return [
            "no snapshot: only CUDA's allocator keeps the history that memory_viz shows, and "
            f"this run is on {environment.device}"
        ]
    return []


def refusal(
    case: Case, experiment: Experiment, environment: Environment, free_bytes: int | None
) -> Failure | None:
    """Why a case need not be tried: what it asks for isn't there, or cannot fit; else None."""
    reason = environment.unsupported.get(case.precision)
    if reason is not None:
        return Failure(
            kind="unsupported",
            message=f"{case.precision}: {reason}",
            phase="start",
            instead=_instead(case, environment),
        )
    need = least_device_bytes(case, environment)
    if experiment.force or free_bytes is None or need <= free_bytes:
        return None
    return Failure(
        kind="oom",
        message=(
            f"needs at least {need / 2**30:.1f} GiB for {case.mode}, "
            f"{free_bytes / 2**30:.1f} GiB are free (--force tries it all the same)"
        ),
        phase="build",
        bytes_asked=need,
        predicted=True,
    )


def least_device_bytes(case: Case, environment: Environment) -> int:
    """Bytes of the device that a case cannot do without.

    Parameters, gradients and state by mode, and the logits; on a card the closed form's lower
    edge, but for compiled models, which save less than it says. Of an own model nothing is known.
    """
    logits = 0
    if case.probe != "attention" and case.shape is not None:
        logits = 2 * case.tokens * case.shape.vocab_size
    least = lower_bound_bytes(case) + logits
    said = prediction(0, case, environment)
    return least if said is None or said.upper_bound else max(least, said.allocated_low)


def prediction(index: int, case: Case, environment: Environment) -> Predicted | None:
    """What a case is predicted to need of the card that is there; None off CUDA."""
    return predicted_here(index, case, environment)


def _instead(case: Case, environment: Environment) -> str:
    order = ("bf16", "fp16", "fp32")
    precision = next(p for p in order if p not in environment.unsupported and p != case.precision)
    return command_of(msgspec.structs.replace(case, precision=precision))
