"""The commands that a document names: what measures a thing that is missing, or tests an idea."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from llmprof.core.document.quotes import Sentence
from llmprof.core.predict.command import command_of
from llmprof.core.spec.axes import BY_FIELD, Mode
from llmprof.core.spec.case import Case, Probe

TRAIN = "llmprof run --mode train"
SWITCHES = "llmprof run switches"
WRITEUP = "llmprof run writeup"


def in_mode(case: Case, mode: Mode, probe: Probe = "timing") -> str:
    """The command that measures a case in another mode."""
    return command_of(replace(case, mode=mode, probe=probe))


def profiling(case: Case) -> str:
    """The command that profiles a case's kernels."""
    return command_of(replace(case, probe="kernels"))


def judged(case: Case, axis: str, *values: str) -> str:
    """The command that measures a case beside others, in processes that judge the difference."""
    return judged_together(case, {axis: values})


def judged_together(case: Case, values: Mapping[str, Sequence[str]]) -> str:
    """The same with several axes that vary: every combination of their values."""
    words = shlex.split(command_of(case))
    for axis, each in values.items():
        option, listed = BY_FIELD[axis].option, ",".join(each)
        if option in words:
            words[words.index(option) + 1] = listed
        else:
            words += [option, listed]
    return shlex.join([*words, "--processes", "3"])


def missing(what: str, command: str) -> Sentence:
    """That something was not measured, and what would."""
    return (f"Not measured: {what}; `{command}` measures it.",)
