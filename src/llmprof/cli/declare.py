"""Declares the options that several commands share; options.py says what they mean."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from llmprof.cli.types import (
    EachFileOnce,
    automatic,
    device_type,
    listed,
    number_or_word,
    one_of,
    percent_type,
    positive,
    seconds_type,
    whole_number,
    word_or_function,
)
from llmprof.core.spec.axes import GRID, Axis
from llmprof.core.spec.case import MOST_PROCESSES
from llmprof.core.spec.experiment import MOST_PROFILE_STEPS
from llmprof.core.spec.shape import MOST_SEED

DIMENSIONS = ("vocab_size", "d_model", "d_ff", "num_layers", "num_heads", "kv_heads")


def add_case_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that choose cases; comma lists make a grid."""
    _add_what(parser)
    _add_how_long(parser)
    shape = parser.add_argument_group("change the model's dimensions")
    for name in DIMENSIONS:
        least = 0 if name == "kv_heads" else 1  # 0: as many as there are heads
        shape.add_argument(
            f"--{name.replace('_', '-')}", type=listed(whole_number(least)), metavar="N"
        )
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
    add(
        "--model",
        action="append",
        metavar="FILE.py:FACTORY",
        help="a model of your own: path/to/file.py:factory, package.module:factory or "
        "hf:path/to/config.json; may be repeated",
    )
    add(
        "--model-arg",
        action="append",
        metavar="NAME=VALUE",
        help="an argument of the factory of --model; may be repeated",
    )
    for axis in GRID:
        if axis.changes != "steps":
            _add_axis(group, axis)
    add(
        "--variant",
        type=listed(str),
        metavar="NAMES",
        help="only these of the experiment's variants, by label: baseline,SDPA",
    )
    add("--smoke", action="store_true", help="the experiment's small sizes, for a try on a CPU")
    add_device_option(group)
    add("--seed", type=whole_number(0, MOST_SEED), metavar="N", help="of weights and tokens (0)")


def add_device_option(group: argparse._ActionsContainer) -> None:
    """Declare --device."""
    group.add_argument(
        "--device", type=device_type, metavar="NAME", help="auto, cpu, cuda or cuda:N (auto)"
    )


def _add_axis(group: argparse._ArgumentGroup, axis: Axis) -> None:
    """Declare an axis's option: a comma list of its values, with `auto` for numbers of steps."""
    kind: Callable[[str], object] = listed(_one_value(axis))
    if axis.changes == "steps":
        kind = automatic(kind)
    names = (axis.option, *axis.aliases)
    if axis.bare is None:
        group.add_argument(*names, type=kind, metavar=axis.metavar, help=axis.help)
    else:
        bare = [axis.text(axis.bare)]
        group.add_argument(
            *names, nargs="?", const=bare, type=kind, metavar=axis.metavar, help=axis.help
        )


def _one_value(axis: Axis) -> Callable[[str], str | int]:
    if axis.functions:
        return word_or_function(axis.words)
    if not axis.numbers:
        return one_of(axis.words)
    number = whole_number(axis.least)
    return number_or_word(number, axis.words) if axis.words else number


def _add_how_long(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how many steps")
    add = group.add_argument
    for axis in GRID:
        if axis.changes == "steps":
            _add_axis(group, axis)
    add(
        "--measure-steps",
        type=automatic(whole_number(1)),
        metavar="N",
        help="measured steps (10), or auto: until --target is met",
    )
    add(
        "--target",
        type=percent_type,
        metavar="P",
        help="measure until the mean is known within P%% (1; its 95%% interval), 15 s a case at "
        "most",
    )
    add(
        "--processes",
        type=whole_number(1, MOST_PROCESSES),
        metavar="N",
        help="fresh processes of every timed case (1); differences are judged from 2 on, "
        "3 to 8 find small ones",
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
        type=whole_number(1, MOST_PROFILE_STEPS),
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
        type=seconds_type,
        metavar="S",
        help="end a case from which nothing, not even a step, is heard for so long (600)",
    )


def add_export_option(parser: argparse.ArgumentParser) -> None:
    """Declare --export, which may be repeated."""
    parser.add_argument(
        "--export",
        "--output",
        action=EachFileOnce,
        default=[],
        type=Path,
        metavar="FILE",
        help="write the tables to FILE.md, FILE.csv or FILE.json; may be repeated",
    )
