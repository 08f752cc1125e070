"""What rules on a tracked loop share: a verdict, what counts once it has warmed up, and words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from llmprof.core import events as ev
from llmprof.core.figures.loops import Part, parts
from llmprof.core.state.histories import CardHistoryView
from llmprof.core.state.loops import LoopState
from llmprof.core.system.numbers import significant

LEAST_STEPS = 12  # beyond those that warm up: of fewer nothing is said
WARM_STEPS = 10
MIB = 2**20


@dataclass(frozen=True)
class LoopVerdict:
    """What was found of a rank: by which figures, what to try, and how the next run would tell."""

    rule: str
    rank: int
    weight: float  # the share of the time that it costs; of what ends a run 1 and more
    finding: str
    remedy: str
    test: str


Rule = Callable[[LoopState, CardHistoryView | None], LoopVerdict | None]


def is_judged(loop: LoopState) -> bool:
    """Whether enough steps have ended, beyond those that warm up, to say what costs time."""
    first = first_warm_row(loop)
    return sum(loop.rows.count(first, first + LEAST_STEPS)) >= LEAST_STEPS


def first_warm_row(loop: LoopState) -> int:
    """The first row that counts."""
    begun = loop.restarts[-1][1] if loop.restarts else 0
    return begun + min(WARM_STEPS, max(1, (len(loop.rows) - begun) // 5))


def settled(loop: LoopState) -> dict[str, Part]:
    """Parts of the steps that have warmed up; none where they are too few."""
    if not is_judged(loop):
        return {}
    return {part.name: part for part in parts(loop, first_warm_row(loop))}


def wall_ms(found: dict[str, Part]) -> float:
    """Milliseconds of a step by the host's clock."""
    return sum(part.host_ms for part in found.values())


def warm_beats(loop: LoopState) -> list[ev.LoopBeat]:
    """Beats of different steps once the loop has warmed up."""
    rows = loop.rows
    if not len(rows):
        return []
    at = first_warm_row(loop)
    first = rows.index(at, at + 1) or [0]
    return [beat for beat in loop.beats if beat.index > first[0]]


def growth(counted: Sequence[float]) -> float:
    """By how much a counter grew, which the program may have set back."""
    return sum(max(0.0, later - before) for before, later in pairwise(counted))


def percent(share: float) -> str:
    """15 %."""
    return f"{100 * share:.0f} %"


def ms(value: float) -> str:
    """Milliseconds, of a second and more in seconds."""
    return f"{significant(value)} ms" if value < 1000 else f"{significant(value / 1000)} s"


def size(value: float) -> str:
    """Bytes in MiB, of a GiB and more in GiB."""
    if value >= 1024 * MIB:
        return f"{value / 1024 / MIB:.2f} GiB"
    return f"{significant(value / MIB)} MiB"
