"""What a change to a step may bring at most, by what else was measured.

A step takes at least as long as the host needs to enqueue it, and at least as long as the card is
busy with what the change does not act on. A gain is capped by both.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from llmprof.core.document.configurations import parameters
from llmprof.core.document.host_floors import launches_of
from llmprof.core.document.paces import profile_of
from llmprof.core.document.profiles import part_of
from llmprof.core.document.steps import Found
from llmprof.core.document.tables import Tables
from llmprof.core.figures.replicates import processes_of
from llmprof.core.spec.case import Case, Phase
from llmprof.core.state.view import CaseState

ALONE = ", were both matrix products alone"  # of forward and backward that no profile splits
MULTIPLIED: tuple[Phase, ...] = ("forward", "backward")


@dataclass(frozen=True)
class Bound:
    """The least milliseconds that something leaves of a step, and what tells it.

    rough: it is no bound but an estimate, for what tells it was measured elsewhere.
    """

    ms: float
    why: str
    rough: bool = False


def host_floor(tables: Tables, case: Case) -> Bound | None:
    """The shortest step of the same launches that the host set the pace of: as fast as it gets."""
    step = tables.host_floors.of(case).shortest
    if step is None:
        return None
    where = f"at {step.context_length:,} tokens"
    return Bound(step.ms, f"by the host, which takes so long to enqueue it {where}")


def own_enqueueing_ms(state: CaseState) -> float | None:
    """What the host spent enqueueing a step of a case, in the process where it was least.

    No floor, for it holds the host's waits where the card's queue was full.
    """
    spent = [
        process.host_share * process.wall.mean
        for process in processes_of(state)
        if process.host_share is not None and process.wall is not None
    ]
    return min(spent, default=None)


def products_ms(tables: Tables, found: Found) -> Bound:
    """What of a step matrix products take at most: by its profile, else by the nearest one."""
    state = found[1]
    whole = sum(state.summaries[phase].mean for phase in MULTIPLIED if phase in state.summaries)
    own = profile_of(tables, state)
    known = None if own is None else _products_of(own[1])
    if known is not None:
        return Bound(known[0], " and the time of matrix products")
    near = _nearest_profile(tables, state)
    known = None if near is None else _products_of(near)
    if near is None or known is None:
        return Bound(whole, ALONE)
    name = f"{near.case.model.name} ({near.case.context_length:,} tokens)"
    why = f" and the share of matrix products in {name}, the nearest that was profiled"
    return Bound(known[1] * whole, why, rough=True)


def _products_of(profiled: CaseState) -> tuple[float, float] | None:
    """Milliseconds of matrix products in forward and backward, and their share of busy time."""
    parts = [part for phase in MULTIPLIED if (part := part_of(profiled, phase)) is not None]
    busy = sum(part.busy_ms for part in parts)
    if len(parts) < len(MULTIPLIED) or busy <= 0:
        return None
    products = sum(part.gemm_ms for part in parts)
    return products, min(1.0, products / busy)


def _nearest_profile(tables: Tables, state: CaseState) -> CaseState | None:
    """The sound profile of the model of most nearly as many parameters, in the same precision."""
    there = [
        each
        for source, each in tables.profiled
        if source.sound(each)
        and each.case.precision == state.case.precision
        and replace(launches_of(each.case), model=state.case.model) == launches_of(state.case)
    ]
    return min(there, key=lambda each: abs(parameters(each) - parameters(state)), default=None)
