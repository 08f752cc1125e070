"""Every option of every experiment changes what is measured, or is refused in one line."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmprof.cli.exits import USAGE, UserError
from llmprof.cli.main import main
from llmprof.cli.options import add_case_options, experiment_from
from llmprof.cli.parser import Parser
from llmprof.core.catalog.experiments import build_experiment, load_experiments
from llmprof.core.catalog.models import load_models
from llmprof.core.predict.command import command_of
from llmprof.core.spec.axes import BY_FIELD, NONE, Axis, Mode
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import Experiment, as_used

VALUES: dict[str, tuple[str, str]] = {  # two values of an option that mean different things
    "model_size": ("tiny", "small"),
    "context_length": ("64", "96"),
    "batch_size": ("2", "3"),
    "checkpoint": ("1", "2"),
    "accumulate": ("1", "2"),
    "mode": ("forward", "forward-backward"),
    "precision": ("fp32", "fp16"),
    "attention": ("naive", "sdpa"),
    "optimizer": ("loop", "fused"),
    "sdpa_backend": ("flash", "math"),
    "compile": ("none", "reduce-overhead"),
    "device": ("cpu", "cuda:1"),
    "seed": ("1", "2"),
    "warmup_steps": ("0", "3"),
    "measure_steps": ("3", "7"),
    "target": ("3", "2"),
    "processes": ("2", "5"),
    "profile_steps": ("2", "5"),
    "peak_tflops": ("10", "20"),
    "timeout": ("10", "20"),
    "vocab_size": ("64", "128"),
    "d_model": ("384", "960"),
    "d_ff": ("64", "128"),
    "num_layers": ("1", "3"),
    "num_heads": ("2", "4"),
    "kv_heads": ("2", "4"),
}
UNTOUCHED = frozenset({"help", "variant", "model", "model_arg"})  # a model is a file of its own


def parser() -> argparse.ArgumentParser:
    made = Parser(prog="llmprof run")
    add_case_options(made)
    return made


def pairs(name: str, action: argparse.Action) -> tuple[list[str], list[str]]:
    """Arguments with an option's one value and with its other; a flag is given or not."""
    option = action.option_strings[0]
    if action.nargs == 0:
        return [], [option]
    one, other = VALUES.get(name) or two_words(BY_FIELD[name])
    return [f"{option}={one}"], [f"{option}={other}"]


def two_words(axis: Axis) -> tuple[str, str]:
    """The first two values of an axis of words, for which none are chosen above."""
    one, other = (NONE if value is None else str(value) for value in axis.values[:2])
    return one, other


def told(experiment: Experiment) -> tuple[object, ...]:
    """All that a run makes use of: the work of its cases, and what engine and report are told."""
    cases = tuple(as_used(case).key for case in experiment.cases())
    return cases, experiment.force, experiment.silence_s, experiment.peak_tflops


def options() -> Iterator[tuple[str, str]]:
    for experiment in load_experiments():
        for action in parser()._actions:
            if action.dest not in UNTOUCHED:
                yield experiment, action.dest


def asked(experiment: str, arguments: list[str], *more: str) -> Experiment | str:
    """The experiment of a command line, or the line that refuses it."""
    try:
        return experiment_from(parser().parse_args([*arguments, *more]), experiment)
    except UserError as error:
        return str(error)


@pytest.mark.parametrize(("name", "dest"), tuple(options()))
def test_an_option_changes_the_run_or_is_refused(
    name: str, dest: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path))
    action = next(action for action in parser()._actions if action.dest == dest)
    one, other = (asked(name, arguments) for arguments in pairs(dest, action))
    if isinstance(one, Experiment) and isinstance(other, Experiment):
        assert told(one) != told(other)
        return
    for arguments, found in zip(pairs(dest, action), (one, other), strict=True):
        if isinstance(found, str):
            assert main(["run", name, *arguments]) == USAGE
            out, err = capsys.readouterr()
            assert (out, err) == ("", f"llmprof: {found}\n")
            assert action.option_strings[0] in found


@pytest.mark.parametrize("name", tuple(load_experiments()))
def test_a_variant_is_a_part_of_the_experiment(name: str) -> None:
    labels = [variant.label for variant in build_experiment(name, {}).variants if variant.label]
    found = [asked(name, [f"--variant={label}"]) for label in labels]
    cases = [told(each) for each in found if isinstance(each, Experiment)]
    assert len(set(cases)) == len(labels)


REFUSED = (
    ("memory", "--measure-steps=3", "no case of memory is timed"),
    ("memory", "--measure-steps=auto", "no case of memory is timed"),
    ("memory", "--target=2", "no case of memory is timed"),
    ("memory", "--warmup-steps=auto", "warmed up by a number of steps"),
    ("memory", "--processes=2", "only timed cases are repeated"),
    ("memory", "--interleave", "none can take turns"),
    ("memory", "--peak-tflops=10", "no rate is divided by a peak"),
    ("memory", "--profile-steps=3", "`llmprof run kernels --profile-steps` does"),
    ("memory", "--snapshot --device=cpu", "only CUDA's allocator keeps the history"),
    ("kernels", "--variant=profiled --measure-steps=3", "kernel profiles have --profile-steps"),
    ("kernels", "--variant=profiled --target=3", "kernel profiles have --profile-steps"),
    ("kernels", "--variant=profiled --processes=3", "only timed cases are repeated"),
    ("kernels", "--interleave", "no two timed cases of kernels differ only in switches"),
    ("end-to-end", "--interleave", "no two timed cases of end-to-end differ only in switches"),
    ("end-to-end", "--mode=forward --optimizer=fused", "mode train has one"),
    ("precision", "--mode=forward-backward --optimizer=fused", "mode train has one"),
    ("attention", "--optimizer=fused", "mode train has one"),
    ("attention", "--mode=train", "one attention by itself has modes forward or forward-backward"),
    ("attention", "--mode=forward-grad", "has modes forward or forward-backward"),
    ("attention", "--model-size=small --num-heads=4", "--d-model and --context-length set its"),
    ("attention", "--vocab-size=64", "without a model around it"),
)


@pytest.mark.parametrize(("name", "arguments", "says"), REFUSED)
def test_an_option_without_effect_is_refused(name: str, arguments: str, says: str) -> None:
    found = asked(name, arguments.split())
    assert isinstance(found, str)
    assert says in found
    assert "\n" not in found


def test_interleaving_and_an_optimizer_where_they_have_something_to_do() -> None:
    found = asked("end-to-end", ["--model-size=tiny", "--mode=train", "--precision=fp32,bf16",
                                 "--interleave", "--optimizer=foreach,fused"])  # fmt: skip
    assert isinstance(found, Experiment)
    assert [case.interleaved for case in found.cases()] == [True] * 4


def test_a_forward_is_measured_once_whatever_the_optimizers() -> None:
    found = asked("end-to-end", ["--model-size=tiny", "--mode=forward,train",
                                 "--optimizer=foreach,fused"])  # fmt: skip
    assert isinstance(found, Experiment)
    assert [case.mode for case in found.cases()] == ["forward", "train", "train"]


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_memory_recording_is_warmed_up_as_asked(steps: int) -> None:
    found = asked("memory", [f"--warmup-steps={steps}", "--model-size=tiny"])
    assert isinstance(found, Experiment)
    assert {case.warmup_steps for case in found.cases()} == {steps}
    usual = asked("memory", ["--model-size=tiny"])
    assert isinstance(usual, Experiment)
    assert {case.warmup_steps for case in usual.cases()} == {2}


OTHER = ["--model-size=tiny", "--attention=sdpa", "--compile", "--warmup-steps=0", "--processes=2"]


@pytest.mark.parametrize("option", OTHER)
def test_a_calibration_has_no_cases_to_choose(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["calibrate", option])
    assert stop.value.code == USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


def test_checkpoints_act_where_a_graph_is_kept() -> None:
    for mode in ("forward-grad", "forward-backward", "train"):
        both = ["--checkpoint=none,1", "--precision=fp32", "--context-length=64"]
        found = asked("memory", [f"--mode={mode}", "--model-size=tiny", *both])
        assert isinstance(found, Experiment), found
        assert [case.checkpoint for case in found.cases()] == [None, 1]
    assert "nothing to compute again" in str(asked("memory", ["--mode=forward", "--checkpoint=1"]))


@pytest.mark.parametrize("mode", ["forward", "forward-grad", "train"])
def test_the_command_of_a_case_is_not_refused(mode: Mode) -> None:
    case = Case(model=load_models()["tiny"], mode=mode, checkpoint=1, optimizer="fused")
    words = shlex.split(command_of(case))[2:]
    found = asked("end-to-end", words)
    assert isinstance(found, Experiment), found
    assert [as_used(each) for each in found.cases()] == [
        replace(as_used(case), warmup_steps=found.cases()[0].warmup_steps)
    ]
