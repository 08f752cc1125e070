"""What may be switched in a case so that it needs less memory, axis by axis and all together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import msgspec

from llmprof.core.predict.checkpoints import best_blocks
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


def _micro_batches(case: Case, capability: Capability) -> tuple[Value, ...]:
    """Of the batch's divisors the least, and single sequences."""
    if "backward" not in case.phases or case.accumulate > 1 or case.batch_size == 1:
        return ()
    size = case.batch_size
    least = next(count for count in range(2, size + 1) if size % count == 0)
    return tuple(dict.fromkeys((least, size)))


def _checkpoints(case: Case, capability: Capability) -> tuple[Value, ...]:
    """The number of blocks with the lowest peak of the backward, of ties the fewest."""
    if "backward" not in case.phases or case.checkpoint is not None:
        return ()
    best = best_blocks(case, capability)[0].blocks
    return () if best is None else (best,)


# The axes to try, in the order of what they cost a step: first those that leave its results alone
# and make it no slower, last those that compute again or in smaller parts. Of each the values to
# try in a case, the one that changes least first. An axis without an entry is left as it is: that
# torch.compile saves memory is known, not how much.
CANDIDATES: Mapping[str, Callable[[Case, Capability], tuple[Value, ...]]] = {
    "attention": _attentions,
    "optimizer": _optimizers,
    "precision": _precisions,
    "accumulate": _micro_batches,
    "checkpoint": _checkpoints,
}


def choices(case: Case, capability: Capability) -> list[Choice]:
    """Every choice of switches, the least costly first.

    A choice costs what the costliest of its switches does; of equally costly ones the fewest come
    first, so that no choice comes after one that has more besides. Of one set of axes the mildest
    values are first.
    """
    options = [
        [(BY_FIELD[field], value) for value in values(case, capability)]
        for field, values in CANDIDATES.items()
    ]
    options = [option for option in options if option]
    found = [
        choice
        for size in range(1, len(options) + 1)
        for taken in itertools.combinations(options, size)
        for choice in itertools.product(*taken)
    ]
    cost = {field: place for place, field in enumerate(CANDIDATES)}
    return sorted(found, key=lambda choice: (cost[choice[-1][0].field], len(choice)))


def switched(case: Case, choice: Choice) -> Case:
    """The case with a choice made."""
    return msgspec.structs.replace(case, **{axis.field: value for axis, value in choice})
