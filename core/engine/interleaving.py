"""Several live workers taking turns, so that a drift of the machine hits all of their cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from llmprof.core.engine.workers import Worker
from llmprof.core.predict.flops import lower_bound_bytes
from llmprof.core.spec.axes import SWITCHES, neutral
from llmprof.core.spec.case import Case
from llmprof.core.system.host_memory import OomKills

TOGETHER_MEMORY_SHARE = 0.8  # of what is free, for all live workers together
ROOM = 1.5  # times the lower bound of bytes, for activations and the device's context


@dataclass
class LiveWorker:
    """A case whose worker has been started and has not ended."""

    index: int
    worker: Worker
    scratch: TemporaryDirectory[str]
    memory_kills: OomKills  # before it began


def alternate(live: Sequence[LiveWorker], advance: Callable[[LiveWorker], bool]) -> None:
    """Give parked workers their turns, there and back (A B B A), until all have ended.

    advance runs one turn and says whether the worker is parked again.
    """
    waiting = list(live)
    while waiting:
        waiting = [one for one in waiting if advance(one)]
        waiting.reverse()


def batches(
    wanted: Iterable[int], cases: Sequence[Case], free_bytes: int | None
) -> list[tuple[int, ...]]:
    """Cases to run, those that take turns together: they differ in their switches alone.

    A group is cut where its lower bounds of memory, with some room, would exceed what is free.
    """
    found: list[list[int]] = []
    budget = None if free_bytes is None else TOGETHER_MEMORY_SHARE * free_bytes
    taken = 0.0
    for index in wanted:
        case = cases[index]
        need = ROOM * lower_bound_bytes(case)
        together = bool(found) and _comparable(cases[found[-1][-1]], case)
        if together and (budget is None or taken + need <= budget):
            found[-1].append(index)
            taken += need
        else:
            found.append([index])
            taken = need
    return [tuple(group) for group in found]


def _comparable(one: Case, other: Case) -> bool:
    return one.interleaved and neutral(one, SWITCHES) == neutral(other, SWITCHES)
