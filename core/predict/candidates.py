"""What may be switched in a case so that it needs less memory, axis by axis and all together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping

import msgspec

from llmprof.core.predict.fits import unsupported
from llmprof.core.spec.axes import BY_FIELD, HALVES, Axis, Value
from llmprof.core.spec.case import Case

Capability = tuple[int, int]
Choice = tuple[tuple[Axis, Value], ...]  # axes, each once, with a value that the case has not


def _precisions(case: Case, capability: Capability) -> tuple[Value, ...]:
    """Half precision saves activations; without autocast there are no copies of the weights."""
    if case.precision in HALVES:
        return ("fp32",)
    return tuple(half for half in HALVES if unsupported(half, capability) is None)[:1]


def _attentions(case: Case, capability: Capability) -> tuple[Value, ...]:
    return ("sdpa",) if case.attention == "naive" else ()


def _optimizers(case: Case, capability: Capability) -> tuple[Value, ...]:
    return ("fused",) if case.mode == "train" and case.optimizer != "fused" else ()


# The axes to try, those that leave a step's results alone first, and of each the values to try in
# a case, the one that changes least first. An axis without an entry is left as it is: that
# torch.compile saves memory is known, but not how much.
CANDIDATES: Mapping[str, Callable[[Case, Capability], tuple[Value, ...]]] = {
    "attention": _attentions,
    "optimizer": _optimizers,
    "precision": _precisions,
}


def choices(case: Case, capability: Capability) -> Iterator[Choice]:
    """Every choice of one switch, of two and so on; of one set of axes the mildest values first."""
    options = [
        [(BY_FIELD[field], value) for value in values(case, capability)]
        for field, values in CANDIDATES.items()
    ]
    options = [option for option in options if option]
    for size in range(1, len(options) + 1):
        for taken in itertools.combinations(options, size):
            yield from itertools.product(*taken)


def switched(case: Case, choice: Choice) -> Case:
    """The case with a choice made."""
    return msgspec.structs.replace(case, **{axis.field: value for axis, value in choice})
