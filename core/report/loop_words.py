"""The state of a loop in words, for tables and screens."""

from __future__ import annotations

from llmprof.core.figures.loops import steps_per_s
from llmprof.core.figures.part_words import place_words
from llmprof.core.state.loops import LoopState
from llmprof.core.system.numbers import significant
from llmprof.core.system.text import clock

LINGERS_S = 0.3  # in one part: what is over sooner is not worth a word
STUCK_S = 2.0  # the same of one that was cut off in it, which most do in some part


def loop_line(loop: LoopState, now_ns: int | None, dot: str = "·", *, error: bool = True) -> str:
    """step 12,345 · 19.8/s · epoch 3 · in backward 0:00.4; error: with what an exception said."""
    words = [_step(loop)]
    rate = steps_per_s(loop, now_ns)
    if rate is not None:
        words.append(rate_words(rate))
    if loop.epoch is not None:
        words.append(f"epoch {loop.epoch + 1:,}{_of_epoch(loop)}")
    here = loop.current
    if loop.done is not None:
        words.append(_ended(loop, error=error))
    elif here is not None and now_ns is not None:
        since_s = (now_ns - here.since_ns) / 1e9
        if since_s >= LINGERS_S:
            apart = loop.started.model
            words.append(f"{place_words(here.part, apart=apart)} {clock(since_s, tenths=True)}")
    elif now_ns is None and (seen := last_seen(loop)):
        words.append(f"last {seen}")
    return f" {dot} ".join(words)


def last_seen(loop: LoopState) -> str:
    """In which part a loop that was cut off had been for long, and how long; "" of any other."""
    here = loop.current
    if here is None or here.t - here.since_ns < STUCK_S * 1e9:
        return ""
    since = clock((here.t - here.since_ns) / 1e9, tenths=True)
    return f"{place_words(here.part, apart=loop.started.model)} {since}"


def rate_words(rate: float) -> str:
    """Steps a second; of slow loops seconds a step."""
    return f"{significant(rate)}/s" if rate >= 0.1 else f"{significant(1 / rate)} s a step"


def _step(loop: LoopState) -> str:
    if loop.step is None:
        return "no step has ended yet"
    total = loop.started.total_steps
    return f"step {loop.step + 1:,}" + (f" of {total:,}" if total else "")


def _of_epoch(loop: LoopState) -> str:
    beat = loop.beat
    if loop.done is not None or beat is None or beat.position is None or not beat.length:
        return ""  # the last beat is older than the last step
    return f" ({min(beat.position, beat.length):,} of {beat.length:,})"


def _ended(loop: LoopState, *, error: bool) -> str:
    done = loop.done
    assert done is not None
    apart = loop.started.model
    somewhere = done.part and done.outcome != "complete"
    where = f" {place_words(done.part, apart=apart)}" if somewhere else ""
    return f"{done.outcome}{where}" + (f": {done.error}" if error and done.error else "")
