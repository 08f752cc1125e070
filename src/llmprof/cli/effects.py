"""Options that would change nothing of what is measured: they are refused, with the reason."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from llmprof.cli.exits import UserError
from llmprof.cli.types import AUTO
from llmprof.core.spec.axes import AXES
from llmprof.core.spec.case import Case, Probe
from llmprof.core.spec.experiment import RECORDED_STEPS, REPEATED, Experiment

TIMED: tuple[Probe, ...] = ("timing", "attention")  # probes whose steps' times are the figures
OF_A_MODEL = ("d_ff", "num_layers", "num_heads", "kv_heads", "vocab_size")
OF_UPDATES = tuple(axis.field for axis in AXES if axis.touches == ("optimizer",))
OF_KERNELS = ("profile_steps", "stacks", "chrome_trace", "nvtx")
ATTENTION_MODES = ("forward", "forward-backward")


@dataclass(frozen=True)
class Use:
    """What an option is for: the cases that make use of it, and what to say where none does."""

    options: tuple[str, ...]
    by: Callable[[Case], bool]
    why: str


def _of(*probes: Probe) -> Callable[[Case], bool]:
    return lambda case: case.probe in probes


USES = (
    Use(OF_KERNELS, _of("kernels"), "{name} has no kernel profiles with these options; "
        "`llmprof run kernels {option}` does"),
    Use(("snapshot",), _of("memory"), "{name} has no memory recordings with these options; "
        "`llmprof run memory {option}` does"),
    Use(("measure_steps", "target"), _of(*TIMED), "no case of {name} is timed with these options "
        f"(kernel profiles have --profile-steps, memory recordings {RECORDED_STEPS} steps)"),
    Use(("processes",), _of(*REPEATED), "no case of {name} is timed with these options, and only "
        "timed cases are repeated"),
    Use(("peak_tflops",), _of(*TIMED), "no case of {name} is timed with these options, so no rate "
        "is divided by a peak"),
    Use(("interleave",), lambda case: case.interleaved, "no two timed cases of {name} differ only "
        "in switches (precision, attention, optimizer, compile), so none can take turns"),
    Use(OF_UPDATES, lambda case: "optimizer" in case.phases, "no case of {name} has an "
        "optimizer step with these options; mode train has one"),
    Use(("checkpoint",), lambda case: case.mode != "forward", "no case of {name} keeps anything "
        "for a backward with these options, so there is nothing to compute again"),
    Use(OF_A_MODEL, lambda case: case.probe != "attention", "{name} measures one attention without "
        "a model around it; --d-model and --context-length set its size"),
)  # fmt: skip


def refuse_without_effect(args: argparse.Namespace, experiment: Experiment) -> None:
    """Raise UserError for an option that would change nothing."""
    cases = experiment.cases()
    for use in USES:
        for name in filter(_given(args), use.options):
            if not any(map(use.by, cases)):
                _refuse(name, use.why.format(name=experiment.name, option=_option(name)))
    if args.warmup_steps == AUTO and all(case.probe == "memory" for case in cases):
        _refuse("warmup_steps", "a memory recording is warmed up by a number of steps", " auto")
    _refuse_on_cpu(args, experiment)
    _refuse_compiled(args, cases)
    _refuse_modes(args, cases)


def _given(args: argparse.Namespace) -> Callable[[str], bool]:
    return lambda name: getattr(args, name) not in (None, False)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _refuse(name: str, why: str, value: str = "") -> None:
    raise UserError(f"{_option(name)}{value} has no effect here: {why}")


def _refuse_on_cpu(args: argparse.Namespace, experiment: Experiment) -> None:
    if experiment.device != "cpu":
        return
    for name, why in (
        ("nvtx", "its ranges are for a card"),
        ("snapshot", "only CUDA's allocator keeps the history that memory_viz shows"),
    ):
        if getattr(args, name):
            raise UserError(f"{_option(name)} has no effect with --device cpu: {why}")


def _refuse_compiled(args: argparse.Namespace, cases: Iterable[Case]) -> None:
    profiled = [case for case in cases if case.probe == "kernels"]
    if args.stacks and all(case.compile is not None for case in profiled):
        raise UserError("--stacks has no effect on compiled models: their source is not followed")


def _refuse_modes(args: argparse.Namespace, cases: Iterable[Case]) -> None:
    """An attention by itself has no optimizer, and its graph is kept where there is a backward."""
    beyond = [mode for mode in args.mode or () if mode not in ATTENTION_MODES]
    if beyond and all(case.probe == "attention" for case in cases):
        allowed = " or ".join(ATTENTION_MODES)
        raise UserError(f"--mode {beyond[0]}: one attention by itself has modes {allowed}")
