"""Ranks that say nothing any more: since when, and whether their process is suspended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmprof.core.report.loop_words import seconds
from llmprof.core.state.loops import LoopState
from llmprof.core.store.run import Run

SILENT_S = 2.5  # a beat, and some: from here on it is looked whether the process is suspended
QUIET_S = 6.0  # three beats


@dataclass(frozen=True)
class Silence:
    """A rank that was not heard for so long; pid is of a process that is known to be suspended."""

    rank: int
    lasts_s: float
    pid: int | None = None

    @property
    def state(self) -> str:
        """What is wrong, in a word or two, and for how long."""
        return f"{'no sign of life' if self.pid is None else 'suspended'} {seconds(self.lasts_s)}"


def silences(loops: Sequence[LoopState], run: Run | None, now_ns: int | None) -> list[Silence]:
    """The ranks that should be heard and are not, those first that are known to be suspended."""
    if run is None or now_ns is None:
        return []
    found = []
    for loop in loops:
        lasts_s = (now_ns - loop.last_t) / 1e9
        if loop.done is not None or lasts_s <= SILENT_S:
            continue
        pid = loop.started.pid
        if run.suspended(pid, loop.started.node):
            found.append(Silence(loop.rank, lasts_s, pid))
        elif lasts_s > QUIET_S:
            found.append(Silence(loop.rank, lasts_s))
    return sorted(found, key=lambda each: (each.pid is None, -each.lasts_s, each.rank))


def silence_words(silent: Sequence[Silence], *, several: bool) -> str:
    """What is to be known of the silent ranks, in one sentence; "" where all are heard."""
    if not silent:
        return ""
    first = silent[0]
    who = f"rank {first.rank}: " if several else ""
    remedy = "" if first.pid is None else f", until kill -CONT {first.pid}"
    more = f"; {len(silent) - 1:,} more are silent" if len(silent) > 1 else ""
    return f"{who}{first.state}{remedy}{more}"
