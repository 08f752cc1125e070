"""Options that choose what is measured, shared by several commands."""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import Any

import msgspec

from llmprof.cli.exits import UserError
from llmprof.cli.types import (
    AUTO,
    automatic,
    device,
    listed,
    one_of,
    percent,
    positive,
    seconds,
    whole,
)
from llmprof.core.experiments import DEFAULT, build_experiment, is_attention
from llmprof.core.presets import select_models
from llmprof.core.spec import (
    ATTENTIONS,
    COMPILE_MODES,
    MODES,
    MOST_MEASURE_STEPS,
    MOST_PROFILE_STEPS,
    MOST_SEED,
    MOST_WARMUP_STEPS,
    OPTIMIZERS,
    PRECISIONS,
    TARGET_PERCENT,
    Experiment,
    ModelShape,
    Probe,
    SpecError,
)

EAGER = "none"  # of --compile
DIMENSIONS = ("vocab_size", "d_model", "d_ff", "num_layers", "num_heads", "kv_heads")

_PROBE_OPTIONS: dict[str, Probe] = {
    "profile_steps": "kernels",
    "stacks": "kernels",
    "chrome_trace": "kernels",
    "nvtx": "kernels",
    "snapshot": "memory",
}


def add_case_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that choose cases; comma lists make a grid."""
    _add_what(parser)
    _add_how_long(parser)
    shape = parser.add_argument_group("change the model's dimensions")
    for name in DIMENSIONS:
        least = 0 if name == "kv_heads" else 1  # 0: as many as there are heads
        shape.add_argument(f"--{name.replace('_', '-')}", type=listed(whole(least)), metavar="N")
    _add_profile(parser)
    _add_limits(parser)


def _add_what(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to measure (comma lists make a grid)")
    add = group.add_argument
    add(
        "--model-size",
        type=listed(str),
        metavar="NAMES",
        help="small,medium or all (tiny to 2.7B); `llmprof presets` lists them",
    )
    add("--context-length", "--seq-len", type=listed(whole(1)), metavar="N", help="tokens (128)")
    add("--batch-size", type=listed(whole(1)), metavar="N", help="sequences a step (4)")
    add("--mode", "--pass-type", type=listed(one_of(MODES)), metavar="MODES", help=", ".join(MODES))
    add(
        "--precision",
        type=listed(one_of(PRECISIONS)),
        metavar="NAMES",
        help=", ".join(PRECISIONS),
    )
    add(
        "--attention",
        type=listed(one_of(ATTENTIONS)),
        metavar="NAMES",
        help="naive writes the scores to memory, sdpa uses torch's fused kernels",
    )
    add(
        "--optimizer",
        type=listed(one_of(OPTIMIZERS)),
        metavar="NAMES",
        help="AdamW as foreach, fused or a loop over tensors",
    )
    add(
        "--compile",
        nargs="?",
        const=["default"],
        type=listed(one_of((EAGER, *COMPILE_MODES))),
        metavar="MODES",
        help="torch.compile the model: " + ", ".join((EAGER, *COMPILE_MODES)),
    )
    add(
        "--variant",
        type=listed(str),
        metavar="NAMES",
        help="only these of the experiment's variants, by label: baseline,SDPA",
    )
    add("--smoke", action="store_true", help="the experiment's small sizes, for a try on a CPU")
    add("--device", type=device, metavar="NAME", help="auto, cpu, cuda or cuda:N (auto)")
    add("--seed", type=whole(0, MOST_SEED), metavar="N", help="of weights and tokens (0)")


def _add_how_long(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("how many steps").add_argument
    add(
        "--warmup-steps",
        type=automatic(listed(whole(0))),
        metavar="N",
        help="steps before the measured (5), or auto: until they are steady",
    )
    add(
        "--measure-steps",
        type=automatic(whole(1)),
        metavar="N",
        help="measured steps (10), or auto: until --target is met",
    )
    add(
        "--target",
        type=percent,
        metavar="P",
        help="measure until the mean's 95%% interval is within ± P%% (1), 15 s a case at most",
    )
    add(
        "--interleave",
        action="store_true",
        help="alternate the steps of cases that differ only in switches, so that drift hits all",
    )


def _add_profile(parser: argparse.ArgumentParser) -> None:
    profile = parser.add_argument_group("kernel and memory profiles")
    profile.add_argument(
        "--profile-steps",
        type=whole(1, MOST_PROFILE_STEPS),
        metavar="N",
        help=f"steps under the profiler (3, at most {MOST_PROFILE_STEPS})",
    )
    profile.add_argument(
        "--stacks", action="store_true", help="name the line of Python that launches each kernel"
    )
    profile.add_argument(
        "--chrome-trace", action="store_true", help="keep a trace for Perfetto in the run's folder"
    )
    profile.add_argument("--nvtx", action="store_true", help="NVTX ranges, to run under Nsight")
    profile.add_argument(
        "--snapshot",
        action="store_true",
        help="with `llmprof run memory` on a card: keep what pytorch.org/memory_viz shows",
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--peak-tflops",
        type=positive,
        metavar="T",
        help="dense peak that MFU is a share of, where the card's is not known",
    )
    limits.add_argument("--force", action="store_true", help="try what is predicted not to fit")
    limits.add_argument(
        "--timeout",
        type=seconds,
        metavar="S",
        help="end a case from which nothing, not even a step, is heard for so long (600)",
    )


def experiment_from(args: argparse.Namespace, name: str = DEFAULT) -> Experiment:
    """The experiment that the options ask for. Raises UserError."""
    axes = {
        "context_lengths": args.context_length,
        "batch_sizes": args.batch_size,
        "modes": args.mode,
        "precisions": args.precision,
        "attentions": args.attention,
        "optimizers": args.optimizer,
        "compiles": args.compile and [None if m == EAGER else m for m in args.compile],
        "variants": args.variant,
        **_steps(args),
        "interleave": args.interleave or None,
        "profile_steps": args.profile_steps,
        "stacks": args.stacks or None,
        "trace": args.chrome_trace or None,
        "nvtx": args.nvtx or None,
        "snapshot": args.snapshot or None,
        "peak_tflops": args.peak_tflops,
        "device": args.device,
        "seed": args.seed,
        "silence_s": args.timeout,
        "force": args.force or None,
    }
    overrides: dict[str, Any] = {key: value for key, value in axes.items() if value is not None}
    try:
        chosen = _models(args, name)
        if chosen:
            # Sizes that were asked for are measured, however long they take.
            overrides |= chosen | {"cpu_budget_s": None}
        experiment = build_experiment(name, overrides, smoke=args.smoke)
    except SpecError as error:
        raise UserError(str(error)) from error
    _refuse_without_effect(args, experiment)
    return experiment


def _refuse_without_effect(args: argparse.Namespace, experiment: Experiment) -> None:
    """Raise UserError for an option of a profile that would change nothing."""
    probes = {case.probe for case in experiment.cases()}
    for name, probe in _PROBE_OPTIONS.items():
        option = f"--{name.replace('_', '-')}"
        if getattr(args, name) not in (None, False) and probe not in probes:
            raise UserError(
                f"{option} has no effect here: {experiment.name} has no {probe} profiles with "
                f"these options; `llmprof run {probe} {option}` does"
            )
    if experiment.nvtx and experiment.device == "cpu":
        raise UserError("--nvtx has no effect with --device cpu: its ranges are for a card")
    profiled = [case for case in experiment.cases() if case.probe == "kernels"]
    if experiment.stacks and all(case.compile is not None for case in profiled):
        raise UserError("--stacks has no effect on compiled models: their source is not followed")


def add_export_option(parser: argparse.ArgumentParser) -> None:
    """Declare --export, which may be repeated."""
    parser.add_argument(
        "--export",
        "--output",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="write the tables to FILE.md, FILE.csv or FILE.json; may be repeated",
    )


def _steps(args: argparse.Namespace) -> dict[str, Any]:
    """Fields for fixed or automatic numbers of steps; a target implies automatic measuring."""
    fields: dict[str, Any] = {"warmup_steps": args.warmup_steps}
    if args.warmup_steps == AUTO:
        fields = {"warmup_steps": [MOST_WARMUP_STEPS], "warmup_auto": True}
    if args.measure_steps != AUTO and args.target is None:
        return fields | {"measure_steps": args.measure_steps}
    most = MOST_MEASURE_STEPS if args.measure_steps in (AUTO, None) else args.measure_steps
    target = TARGET_PERCENT if args.target is None else args.target
    return fields | {"measure_steps": most, "target_percent": target}


def _models(args: argparse.Namespace, experiment: str) -> dict[str, Any]:
    """The experiment's models or widths, where the options name any."""
    changes = {name: v for name in DIMENSIONS if (v := getattr(args, name)) is not None}
    if not args.model_size and set(changes) == {"d_model"} and is_attention(experiment):
        return {"widths": changes["d_model"]}
    if not args.model_size and not changes:
        return {}
    models = select_models(args.model_size or ["small"])
    grid = itertools.product(*changes.values())
    varied = {name for name, values in changes.items() if len(values) > 1}
    return {
        "models": [
            _changed(model, dict(zip(changes, values, strict=True)), varied)
            for values in grid
            for model in models
        ]
    }


def _changed(model: ModelShape, changes: dict[str, int], varied: set[str]) -> ModelShape:
    """A model of other dimensions, marked so; those that the grid varies stand in its name."""
    if not changes:
        return model
    apart = "".join(f" {name}={changes[name]}" for name in changes if name in varied)
    return msgspec.structs.replace(model, **changes, name=f"{model.name}+{apart}")
