"""Verdicts on a tracked loop: what costs it time, by which figures; on its memory: loop_memory.py.

A rule is a function of one rank's loop and gives a finding or None; `loop_verdicts` gives at most
three, what costs most first. Every finding says what to try and how the next run would tell.
"""

from __future__ import annotations

import math
import statistics

from llmprof.core.events.loop import CHECKPOINT, EVALUATION
from llmprof.core.figures.loops import straggler
from llmprof.core.figures.part_words import part_words
from llmprof.core.lint.loop_memory import (
    allocator_retries,
    fragmentation,
    memory_creep,
    out_of_memory,
)
from llmprof.core.lint.loop_verdict import (
    LEAST_STEPS,
    LoopVerdict,
    Rule,
    first_warm_row,
    growth,
    ms,
    percent,
    settled,
    wall_ms,
    warm_beats,
)
from llmprof.core.state.histories import CardHistoryView
from llmprof.core.state.loops import LoopState
from llmprof.core.state.view import RunView
from llmprof.core.system.numbers import significant
from llmprof.core.system.text import counted

MOST_VERDICTS = 3
INPUT_SHARE = 0.15  # of the time: less is no finding
ASIDE_SHARE = 0.2
LEAST_ASIDE_MS = 100.0  # of the whole training: less is worth nobody's while
NEARLY_ALL = 0.9  # of what lies between steps: then it is told by the few times that make it
COMPILE_SHARE = 0.05
BLOCKED_SHARE = 0.2  # of the looks at the training thread
LEAST_LOOKS = 20
LOCKSTEP = 0.1  # by how much of a part's time host and card may differ
LAUNCHES_SHARE = 0.5  # of the time that such parts must take
NAMED_SO = {  # what users call a phase of their own that is one of these
    EVALUATION: frozenset({"eval", "evaluate", "val", "valid", "validate", "validation", "test"}),
    CHECKPOINT: frozenset({"checkpointing", "save", "saving", "save checkpoint"}),
}
BUSY_PERCENT = 90.0  # from which a card is not said to wait, and processors are said to be full


def loop_verdicts(view: RunView) -> tuple[LoopVerdict, ...]:
    """At most three verdicts on a run's loop, the heaviest first; of ranks alike the worst one."""
    found: dict[str, LoopVerdict] = {}
    for loop in view.loops:
        card = _card(view, loop)
        for rule in RULES:
            verdict = rule(loop, card)
            if verdict is None:
                continue
            known = found.get(verdict.rule)
            if known is None or verdict.weight > known.weight:
                found[verdict.rule] = verdict
    slow = slow_rank(view)
    if slow is not None:
        found[slow.rule] = slow
    if "recompiling" in found:
        found.pop("memory creep", None)  # what is compiled is kept: one cause
    ordered = sorted(found.values(), key=lambda verdict: -verdict.weight)
    return tuple(ordered[:MOST_VERDICTS])


def input_bound(loop: LoopState, card: CardHistoryView | None) -> LoopVerdict | None:
    """Waiting for batches; on a card what counts is how long the card had nothing to do then."""
    found = settled(loop)
    part = found.get("input")
    if part is None:
        return None
    wall = wall_ms(found)
    exposed = min(wall, part.host_ms if part.device_ms is None else part.device_ms)
    share = exposed / wall
    if share < INPUT_SHARE:
        return None
    towards = f" towards {significant(1000 / (wall - exposed))}" if exposed < wall else ""
    return LoopVerdict(
        "input-bound",
        loop.rank,
        share,
        f"{percent(share)} of the time goes by waiting for the next batch: {ms(exposed)} of "
        f"{ms(wall)} a step" + ("" if part.device_ms is None else ", by the card's clock"),
        "more workers (`num_workers`), `persistent_workers` and `pin_memory`, or less work a "
        "sample in the data set",
        f"input wait falls below 5 % of a step; the pace rises from {significant(1000 / wall)}"
        f"{towards} steps/s",
    )


def aside(loop: LoopState, card: CardHistoryView | None) -> LoopVerdict | None:
    """Evaluation, checkpoints, or whatever else lies between steps."""
    found = settled(loop)
    among = {name: part for name, part in found.items() if _kind(name) is not None}
    share = sum(part.share for part in among.values())
    if share < ASIDE_SHARE:
        return None
    name, part = max(among.items(), key=lambda each: each[1].share)
    kind = _kind(name) or name
    rows = _rows(loop, name)
    if sum(rows) < LEAST_ASIDE_MS:
        return None
    often = _how_often(rows, part.host_ms)
    what = {"between": "work between steps", EVALUATION: "evaluation", CHECKPOINT: "checkpoints"}
    remedies = {
        "between": "move it out of the loop or do it less often; `with run.phase(name)` tells "
        "what it is",
        EVALUATION: "evaluate less often, on fewer batches, or on larger ones under `no_grad`",
        CHECKPOINT: "save less often, to a faster disk, or in the background "
        "(`torch.distributed.checkpoint.async_save`)",
    }
    said = what.get(name, f"the phase {name}")
    return LoopVerdict(
        f"{what[kind]} {'stall' if kind == CHECKPOINT else 'stalls'} the training",
        loop.rank,
        share,
        f"{said} took {percent(part.share)} of the time: {often}",
        remedies[kind],
        f"the share of {said} falls below {percent(ASIDE_SHARE / 2)}",
    )


def _how_often(rows: list[float], a_step: float) -> str:
    """5 times, 1.5 s each on average; of what lies in most steps what it takes of each."""
    times = [ms for ms in rows if ms > max(rows) / 10]
    if sum(times) < NEARLY_ALL * sum(rows):
        return f"{ms(a_step)} a step on average, at most {ms(max(rows))}"
    if len(times) == 1:
        return f"once, {ms(times[0])}"
    return f"{counted(len(times), 'time')}, {ms(statistics.fmean(times))} each on average"


def recompiling(loop: LoopState, card: CardHistoryView | None) -> LoopVerdict | None:
    """torch.compile still compiles when the loop should have warmed up."""
    beats = [beat for beat in warm_beats(loop) if beat.compiles is not None]
    if len(beats) < 2:
        return None
    first, last = beats[0], beats[-1]
    count = growth([beat.compiles or 0 for beat in beats])
    seconds = growth([beat.compile_s for beat in beats])
    share = seconds / max(1e-9, (last.t - first.t) / 1e9)
    if count < 3 or share < COMPILE_SHARE:
        return None
    return LoopVerdict(
        "recompiling",
        loop.rank,
        min(1.0, share),
        f"torch.compile compiled {count:.0f} times after step {first.index:,}, for "
        f"{significant(seconds)} s, {percent(min(1.0, share))} of the time",
        "`TORCH_LOGS=recompiles` names what changed; pad batches to few lengths, or "
        "`torch.compile(dynamic=True)`",
        "nothing is compiled after the first steps",
    )


def host_blocked(loop: LoopState, card: CardHistoryView | None) -> LoopVerdict | None:
    """The training thread waits for the card in the midst of its step."""
    beat = loop.beat
    if beat is None or beat.looks < LEAST_LOOKS or not beat.blocked_at:
        return None
    share = beat.blocked / beat.looks
    if share < BLOCKED_SHARE:
        return None
    busy = _busy(loop, card)
    idle = 1.0 if busy is None else max(0.0, 1 - busy / 100)
    least = f"the thread is seen there in less than {percent(BLOCKED_SHARE / 4)} of the looks"
    gain = "and the pace rises"
    if busy is not None and busy >= BUSY_PERCENT:
        gain = f"though the pace hardly rises, for the card was busy {busy:.0f} % of the time"
    return LoopVerdict(
        "host-blocked",
        loop.rank,
        min(share, idle),
        f"in {percent(share)} of {beat.looks:,} looks the training thread stood in a call that "
        f"waits for the card, most often at {beat.blocked_at}",
        "keep values on the card and read them every so many steps (`run.log(loss=loss)` copies "
        "without waiting)",
        f"{least}, {gain}",
    )


def launch_bound(loop: LoopState, card: CardHistoryView | None) -> LoopVerdict | None:
    """The card follows the host step by step and waits for its next launch."""
    if host_blocked(loop, card) is not None or card is None:
        return None
    busy = _busy(loop, card)
    if busy is None or busy >= BUSY_PERCENT:
        return None
    found = settled(loop)
    work = [found[name] for name in ("forward", "loss", "backward", "optimizer") if name in found]
    alike = [
        part
        for part in work
        if part.device_ms is not None
        and abs(part.device_ms - part.host_ms) <= LOCKSTEP * part.host_ms
    ]
    share = sum(part.share for part in alike)
    if not work or len(alike) < len(work) or share < LAUNCHES_SHARE:
        return None
    return LoopVerdict(
        "launch-bound",
        loop.rank,
        share * (1 - busy / 100),
        f"forward, backward and update take the card as long as the host that launches them, "
        f"{percent(share)} of the time, and the card was busy {busy:.0f} % of the whole time",
        "larger batches, `torch.compile(mode='reduce-overhead')`, a fused optimizer",
        f"the card is busy more than {BUSY_PERCENT:.0f} % of the time",
    )


def slow_rank(view: RunView) -> LoopVerdict | None:
    """A rank for which the others wait."""
    loops = view.loops
    slow = straggler(loops)
    if slow is None or min(len(loop.rows) for loop in loops) < LEAST_STEPS:
        return None
    loop = next(each for each in loops if each.rank == slow.rank)
    wall = wall_ms(settled(loop)) if settled(loop) else math.inf
    crowded = _crowded(view)
    where = part_words(slow.part, apart=loop.started.model)
    waits = ", and they wait for it in backward"
    if slow.waited_ms < slow.excess_ms / 2:
        waits = "; their backward is hardly longer, so that they are not seen to wait for it there"
    return LoopVerdict(
        "straggler",
        slow.rank,
        min(1.0, slow.excess_ms / wall),
        f"rank {slow.rank} works {ms(slow.excess_ms)} longer a step than the others, most of it "
        f"in {where}{waits}{crowded}",
        "give each rank processors of its own (OMP_NUM_THREADS, taskset), then look again"
        if crowded
        else "compare its batches, its card's clocks and its machine with the others'",
        "own work of the ranks differs by less than 5 % of a step",
    )


def _crowded(view: RunView) -> str:
    """What the host's load says where ranks of one machine share processors that are all busy."""
    if len({loop.started.node for loop in view.loops}) > 1:
        return ""
    firsts = [(loop.rows, first_warm_row(loop)) for loop in view.loops]
    start = max(rows.start_ns(at, at + 1)[0] for rows, at in firsts)
    busy = view.host_cpu.between(start, max(loop.last_t for loop in view.loops) + 1)
    share = sum(busy) / len(busy) if busy else 0.0
    if share < BUSY_PERCENT:
        return ""
    return f"; the processors that they share were {share:.0f} % busy, which may be all of it"


RULES: tuple[Rule, ...] = (
    out_of_memory,
    input_bound,
    aside,
    recompiling,
    host_blocked,
    launch_bound,
    memory_creep,
    allocator_retries,
    fragmentation,
)


def _kind(name: str) -> str | None:
    """Which of what may stall a training a part is; None for a part of the step itself."""
    plain = name.lower().replace("_", " ").replace("-", " ")
    for kind, names in NAMED_SO.items():
        if plain == kind or plain in names:
            return kind
    return name if name == "between" else None


def _rows(loop: LoopState, name: str) -> list[float]:
    """Milliseconds of a part, row by row, of the rows that count."""
    start = first_warm_row(loop)
    times, counts = loop.rows.part_ms(name, start), loop.rows.count(start)
    return [ms * count for ms, count in zip(times, counts, strict=True)]


def _card(view: RunView, loop: LoopState) -> CardHistoryView | None:
    """What was sampled of a rank's card."""
    if loop.device is None or loop.device.uuid is None:
        return None
    for card in view.cards.values():
        if card.last is not None and card.last.uuid == loop.device.uuid:
            return card
    return None


def _busy(loop: LoopState, card: CardHistoryView | None) -> float | None:
    """Percent of the time for which the card was busy once the loop had warmed up, to its end."""
    series = None if card is None else card.series.get("utilization")
    if series is None or not len(loop.rows):
        return None
    at = first_warm_row(loop)
    start = loop.rows.start_ns(at, at + 1) or [loop.last_t]
    known = [v for v in series.between(start[0], loop.last_t + 1) if not math.isnan(v)]
    return statistics.fmean(known) if known else None
