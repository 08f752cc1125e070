"""Ranks that say nothing any more: since when, and what became of their processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmprof.core.state.loops import LoopState
from llmprof.core.store.run import Run
from llmprof.core.system.processes import ProcessState
from llmprof.core.system.text import clock

SILENT_S = 2.5  # a beat, and some: from here on it is looked what became of the process
QUIET_S = 6.0  # three beats
GONE = "gone: killed, or it crashed"
_ORDER: tuple[ProcessState, ...] = ("gone", "suspended", "going")


@dataclass(frozen=True)
class Silence:
    """A rank that is not heard; its process goes on as far as is known, or it does not."""

    rank: int
    lasts_s: float
    state: ProcessState
    pid: int

    @property
    def words(self) -> str:
        """What is wrong, in a word or two, and for how long."""
        if self.state == "gone":
            return "gone"
        what = "suspended" if self.state == "suspended" else "no sign of life"
        return f"{what} {clock(self.lasts_s)}"


def silences(loops: Sequence[LoopState], run: Run | None, now_ns: int | None) -> list[Silence]:
    """The ranks that have not ended and are not heard, the most certain ones first.

    Without now_ns nothing goes on any more: what has not ended is gone.
    """
    found = []
    for loop in loops:
        if loop.done is not None:
            continue
        pid = loop.started.pid
        if now_ns is None or run is None:
            found.append(Silence(loop.rank, 0.0, "gone", pid))
            continue
        lasts_s = (now_ns - loop.last_t) / 1e9
        if lasts_s > SILENT_S:
            state = run.process_state(pid, loop.started.node)
            if state != "going" or lasts_s > QUIET_S:
                found.append(Silence(loop.rank, lasts_s, state, pid))
    return sorted(found, key=lambda each: (_ORDER.index(each.state), -each.lasts_s, each.rank))


def silence_words(silent: Sequence[Silence], ranks: int) -> str:
    """What is to be known of the silent ones among some ranks; "" where all are heard."""
    if not silent:
        return ""
    first, more = silent[0], len(silent) - 1
    if first.state == "gone" and len(silent) == ranks:
        return f"the training process is {GONE}"
    who = f"rank {first.rank}: " if ranks > 1 else ""
    said = GONE if first.state == "gone" else first.words
    remedy = f", until kill -CONT {first.pid}" if first.state == "suspended" else ""
    return f"{who}{said}{remedy}" + (f"; {more:,} more not heard" if more else "")
