"""The axes of a case: all along which a grid may vary, each with its one entry.

An entry is a field of CaseAxes with its Axis. Case, experiment, variant, command line, form,
tables, exports, turns, neighbours and the coverage grid are made from it; what a worker does with
a value is the worker's. A field's default is its neutral value: what is not asked for, and what
stands in for it where cases are compared but for this axis.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec

from llmprof.core.spec.own_function import is_function, short_name
from llmprof.core.spec.shape import LARGEST, SpecError

Mode = Literal["forward", "forward-grad", "forward-backward", "train"]
Precision = Literal["fp32", "tf32", "bf16", "fp16"]
Attention = str  # naive, sdpa, or a function of the user's own as spec/own_function.py has it
SdpaBackend = Literal["flash", "efficient", "cudnn", "math"]
OptimizerKind = Literal["foreach", "fused", "loop"]
CompileMode = Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
Checkpoint = int | Literal["all"] | None  # blocks a checkpoint

MODES: tuple[Mode, ...] = get_args(Mode)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
HALVES: tuple[Precision, ...] = ("bf16", "fp16")  # under autocast
ATTENTIONS: tuple[Attention, ...] = ("naive", "sdpa")
OPTIMIZERS: tuple[OptimizerKind, ...] = get_args(OptimizerKind)
COMPILE_MODES: tuple[CompileMode, ...] = get_args(CompileMode)

Changes = Literal["work", "phases", "switch", "steps"]
CHANGES: tuple[Changes, ...] = get_args(Changes)  # in the order of columns and of a grid's loops
NONE = "none"  # on the command line and in files: the value None
Value = str | int | None


class Axis(msgspec.Struct, frozen=True):
    """One axis. What is not given follows from the field that it annotates.

    changes: the work of a step (batch), its phases (mode), how the same step is computed (a
    switch), or how it is measured (steps). named: a switch's value as a table names it. brief: a
    value as a case's label has it, "" to leave it out. none: what tables call the value None.
    touches: the phases that a switch acts on, which are judged before the whole step.
    """

    label: str  # a column's heading
    plural: str  # the field of an experiment that lists its values
    changes: Changes
    help: str
    unit: str = ""
    aliases: tuple[str, ...] = ()  # of the option
    touches: tuple[str, ...] = ()
    metavar: str = "NAMES"
    least: int = 1  # of whole numbers
    bare: Value = None  # the value of the option without one; None: it must have one
    none: str = NONE
    named: Callable[[Any], str] = str
    brief: Callable[[Any], str] = lambda value: ""
    field: str = ""
    neutral: Value = None
    values: tuple[Value, ...] = ()  # that may be chosen by a word
    numbers: bool = False  # whether whole numbers from `least` may be chosen
    functions: bool = False  # whether a function of the user's own may be
    kind: Any = None  # the type of a value

    @property
    def option(self) -> str:
        """The command-line option."""
        return option_name(self.field)

    @property
    def words(self) -> tuple[str, ...]:
        """The values that are words, as the command line and the form write them."""
        return tuple(map(self.text, self.values))

    def text(self, value: Value) -> str:
        """A value as the command line and files write it."""
        return NONE if value is None else str(value)

    def shown(self, value: Value) -> str | int:
        """A value as a table shows it."""
        if self.functions:
            return short_name(str(value))
        return self.none if value is None else value

    def value(self, word: str | int) -> Value:
        """The value that a number, a function or one of `words` means."""
        return self.values[self.words.index(word)] if word in self.words else word

    def refusal(self, value: Value) -> str | None:
        """Why a value may not be measured; of words, which their type has checked, none."""
        if isinstance(value, int) and not self.least <= value <= LARGEST:
            return f"{self.option} must be between {self.least} and {LARGEST:,}"
        if self.functions and value not in self.values and not is_function(str(value)):
            known = ", ".join(self.words)
            return f"{self.option} must be {known} or path/to/file.py:function, not {value}"
        return None

    def of(self, case: CaseAxes) -> Value:
        """A case's value."""
        found: Value = getattr(case, self.field)
        return found


def _compiled(mode: str) -> str:
    return "compiled" if mode == "default" else f"compiled {mode}"


def _attention(kind: str) -> str:
    if is_function(kind):
        return short_name(kind)
    return "SDPA" if kind == "sdpa" else f"{kind} attention"


def _checkpointed(blocks: Checkpoint) -> str:
    if blocks is None:
        return "no checkpoints"
    if blocks == "all":
        return "one checkpoint"
    return f"{blocks} {'block' if blocks == 1 else 'blocks'} a checkpoint"


def _micro_batches(count: int) -> str:
    return "one batch" if count == 1 else f"{count} micro-batches"


def _torch_compile(mode: str | None) -> str:
    if mode is None:
        return "eager"
    return "torch.compile" + ("" if mode == "default" else f" ({mode})")


class CaseAxes(msgspec.Struct, frozen=True, kw_only=True):
    """Where a case lies on every axis. Raises SpecError for numbers that cannot be measured."""

    mode: Annotated[
        Mode,
        Axis("Mode", "modes", "phases", ", ".join(MODES), aliases=("--pass-type",),
             metavar="MODES"),
    ] = "train"  # fmt: skip
    precision: Annotated[
        Precision,
        Axis("Precision", "precisions", "switch", ", ".join(PRECISIONS),
             named=lambda value: {"tf32": "TF32"}.get(value, value),
             touches=("forward", "backward")),
    ] = "fp32"  # fmt: skip
    attention: Annotated[
        Attention,
        Axis("Attention", "attentions", "switch",
             "naive writes the scores to memory, sdpa uses torch's fused kernels; "
             "path/to/file.py:function is one of your own (docs/own-model.md)",
             named=_attention, brief=short_name, values=("naive", "sdpa"), functions=True,
             touches=("forward", "backward")),
    ] = "naive"  # fmt: skip
    sdpa_backend: Annotated[
        SdpaBackend | None,
        Axis("SDPA kernel", "sdpa_backends", "switch",
             "for attention-kernels: which of SDPA's kernels, none for the one that torch picks",
             none="torch's choice", named=lambda value: value or "torch's choice", brief=str,
             touches=("forward", "backward")),
    ] = None  # fmt: skip
    optimizer: Annotated[
        OptimizerKind,
        Axis("Optimizer", "optimizers", "switch",
             "AdamW as foreach, fused or a loop over tensors",
             named=lambda value: f"{value} AdamW", brief=str, touches=("optimizer",)),
    ] = "foreach"  # fmt: skip
    compile: Annotated[
        CompileMode | None,
        Axis("Compile", "compiles", "switch",
             "torch.compile the model: " + ", ".join((NONE, *COMPILE_MODES)),
             metavar="MODES", bare="default", none="eager", named=_torch_compile, brief=_compiled,
             touches=("forward", "backward")),
    ] = None  # fmt: skip
    checkpoint: Annotated[
        Checkpoint,
        Axis("Checkpoint", "checkpoints", "switch",
             "blocks a checkpoint, whose activations the backward computes again: "
             "none, 1, 2, 4, ..., all",
             metavar="N", named=_checkpointed, brief=_checkpointed, touches=("backward",)),
    ] = None  # fmt: skip
    accumulate: Annotated[
        int,
        Axis("Micro-batches", "accumulates", "switch",
             "micro-batches of a batch, whose gradients are summed before the update (1)",
             metavar="N", named=_micro_batches, brief=_micro_batches,
             touches=("forward", "backward")),
    ] = 1  # fmt: skip
    context_length: Annotated[
        int,
        Axis("Context", "context_lengths", "work", "tokens (128)", unit="tokens",
             aliases=("--seq-len",), metavar="N"),
    ] = 128  # fmt: skip
    batch_size: Annotated[
        int,
        Axis("Batch", "batch_sizes", "work", "sequences a step (4)", metavar="N",
             brief=lambda value: f"batch {value}"),
    ] = 4  # fmt: skip
    warmup_steps: Annotated[
        int,
        Axis("Warm-up", "warmup_steps", "steps",
             "steps before the measured (5), or auto: until they are steady", unit="steps",
             metavar="N", least=0),
    ] = 5  # fmt: skip

    def __post_init__(self) -> None:
        for axis in AXES:
            if (why := axis.refusal(axis.of(self))) is not None:
                raise SpecError(why)
        if self.sdpa_backend is not None and self.attention != "sdpa":
            raise SpecError("--sdpa-backend is one of SDPA's kernels: it needs --attention sdpa")
        if self.batch_size % self.accumulate:
            raise SpecError(
                f"--batch-size {self.batch_size} cannot be cut into {self.accumulate} equal "
                "micro-batches: --accumulate must divide it"
            )


def option_name(name: str) -> str:
    """The command-line option that sets a field of a case."""
    return "--" + name.replace("_", "-")


def _bound(name: str, annotation: Any, neutral: Value) -> Axis:
    """The axis of a field, with what follows from the field."""
    kind, axis = get_args(annotation)
    assert isinstance(axis, Axis)
    options = get_args(kind) if get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    values = axis.values
    for option in options:
        values += (None,) if option is type(None) else get_args(option)
    ordered = tuple(sorted(values, key=lambda value: value is not None))
    numbers = int in options
    return msgspec.structs.replace(
        axis, field=name, neutral=neutral, values=ordered, numbers=numbers, kind=kind
    )


def _all_axes() -> tuple[Axis, ...]:
    hints = typing.get_type_hints(CaseAxes, include_extras=True)
    defaults = CaseAxes.__struct_defaults__
    return tuple(
        _bound(name, hints[name], default)
        for name, default in zip(CaseAxes.__struct_fields__, defaults, strict=True)
    )


AXES: tuple[Axis, ...] = _all_axes()  # in the order of the fields
# In the order of a grid's loops and of a table's columns.
GRID: tuple[Axis, ...] = tuple(sorted(AXES, key=lambda axis: CHANGES.index(axis.changes)))
SWITCHES: tuple[Axis, ...] = tuple(axis for axis in AXES if axis.changes == "switch")
BY_FIELD: Mapping[str, Axis] = {axis.field: axis for axis in AXES}

AxisLists: Any = msgspec.defstruct(
    "AxisLists",
    [(axis.plural, types.GenericAlias(tuple, (axis.kind, ...)), (axis.neutral,)) for axis in AXES],
    frozen=True,
    kw_only=True,
)
AxisLists.__doc__ = "The values of every axis that a grid has."

AxisChanges: Any = msgspec.defstruct(
    "AxisChanges",
    [(axis.field, axis.kind | None, None) for axis in AXES],
    frozen=True,
    kw_only=True,
    omit_defaults=True,
)
AxisChanges.__doc__ = "Values for some axes; None leaves an axis as it is."

AnyCase = TypeVar("AnyCase", bound=CaseAxes)


def neutral(case: AnyCase, axes: Iterable[Axis]) -> AnyCase:
    """The case with the neutral values of some axes: equal for cases that differ in these alone."""
    changes = {axis.field: axis.neutral for axis in axes if axis.of(case) != axis.neutral}
    return msgspec.structs.replace(case, **changes) if changes else case


def apart(case: CaseAxes, other: CaseAxes, axes: Iterable[Axis] = AXES) -> tuple[Axis, ...]:
    """The axes on which two cases differ."""
    return tuple(axis for axis in axes if axis.of(case) != axis.of(other))


def varying(cases: Iterable[CaseAxes], axes: Iterable[Axis] = GRID) -> tuple[Axis, ...]:
    """The axes along which cases differ."""
    listed = list(cases)
    return tuple(axis for axis in axes if len({axis.of(case) for case in listed}) > 1)
