"""Planted causes each get their verdict and no other; a loop in good health gets none."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from llmprof.core import events as ev
from llmprof.core.figures.loops import COMPARED
from llmprof.core.lint.loops import loop_verdicts
from llmprof.core.report.loop_verdicts import verdict_table
from llmprof.core.report.markdown_table import grid
from llmprof.core.state.histories import CardHistoryView, SeriesView
from llmprof.core.state.loop_columns import LoopRows
from llmprof.core.state.loops import Loops
from llmprof.core.state.view import RunView
from llmprof.core.track.batches import Batches
from tests.builders.tracked_rows import SECOND, USUAL, row

STEPS = 100
MIB = 2**20
Parts = Sequence[tuple[str, float]]


def usual(**changed: float) -> Parts:
    """The usual parts of a step with other times for some, named `forward` where they are ""."""
    return tuple(
        (name, changed.pop(name or "forward", ms) if at == 1 or name else ms)
        for at, (name, ms) in enumerate(USUAL)
    )


def planted(
    ranks: Sequence[Sequence[Parts]],
    *,
    beats: Sequence[dict[str, Any]] = (),
    device: Sequence[float] | None = None,
    done: ev.LoopDone | None = None,
    busy: float | None = None,
    nodes: Sequence[str] = (),
) -> RunView:
    """Loops of ranks, a list of steps' parts each; device times and beats for all of them."""
    loops = Loops()
    for rank, steps in enumerate(ranks):
        node = nodes[rank] if nodes else ""
        loops.apply(ev.LoopStarted(t=SECOND, run_id="r", label="r", rank=rank, node=node))
        if device is not None:
            loops.apply(ev.LoopDevice(t=SECOND, rank=rank, name="card", uuid="GPU-1"))
        start, made = SECOND, []
        for index, parts in enumerate(steps):
            made.append(row(index, start, parts))
            made[-1].device_ms = None if device is None else list(device)
            start = made[-1].end_ns
        for event in Batches(rank, 0).events(made, last=True):
            loops.apply(event)
        for at, beat in enumerate(beats, 1):
            index = at * len(steps) // len(beats)
            t = SECOND + (start - SECOND) * at // len(beats)
            loops.apply(
                ev.LoopBeat(t=t, rank=rank, part="forward", since_ns=t, index=index, **beat)
            )
        if done is not None:
            loops.apply(done)
    cards = {} if busy is None else {0: card(busy)}
    return RunView(loops=loops.view(), cards=cards)


def card(busy: float) -> CardHistoryView:
    series = SeriesView(array("q", [SECOND, 2 * SECOND]), array("d", [busy, busy]), 2)
    return CardHistoryView(
        last=ev.CardSample(index=0, uuid="GPU-1"), series={"utilization": series}
    )


def found(view: RunView) -> list[str]:
    return [verdict.rule for verdict in loop_verdicts(view)]


HEALTHY = [usual()] * STEPS
LEVEL = [{"rss_bytes": (900 + 7 * (at % 3)) * MIB, "compiles": 4, "compile_s": 3.0}
         for at in range(20)]  # fmt: skip


def test_a_loop_in_good_health_gets_none() -> None:
    assert found(planted([HEALTHY], beats=LEVEL)) == []
    assert found(planted([HEALTHY, HEALTHY], beats=LEVEL)) == []
    warming = [usual(input=900.0, forward=5000.0), *HEALTHY[1:]]
    assert found(planted([warming], beats=[{"rss_bytes": MIB}, *LEVEL])) == []
    assert verdict_table(planted([HEALTHY])) is None
    assert verdict_table(RunView()) is None


def test_too_few_steps_say_nothing() -> None:
    assert found(planted([[usual(input=500.0)] * 8])) == []


def test_a_few_milliseconds_aside_are_no_finding() -> None:
    short = [[(name, 0.1) for name, _ in usual()]] * STEPS
    between = [*short[:20], (("between", 16.0), *short[20]), *short[21:]]
    assert found(planted([between])) == []


def evaluated(part: str) -> list[Parts]:
    return [((part, 1500.0), *usual()) if at % 20 == 19 else usual() for at in range(STEPS)]


@pytest.mark.parametrize(
    ("view", "rule", "words"),
    [
        (planted([[usual(input=10.0)] * STEPS], beats=LEVEL), "input-bound", "36 %"),
        (planted([evaluated("evaluation")]), "evaluation stalls the training", "1.5 s each on av"),
        (
            planted([evaluated("Validation")]),
            "evaluation stalls the training",
            "the phase Validation took",
        ),
        (planted([evaluated("save_checkpoint")]), "checkpoints stall the training", "5 times"),
        (planted([evaluated("checkpoint")]), "checkpoints stall the training", "5 times"),
        (
            planted([[usual(backward=29.0)] * STEPS, [usual(forward=25.0)] * STEPS]),
            "straggler",
            "in forward + loss, and they wait",
        ),
        (
            planted([HEALTHY, [usual(forward=25.0)] * STEPS]),
            "straggler",
            "not seen to wait for it there",
        ),
        (
            planted([HEALTHY], beats=[{"rss_bytes": (500 + 10 * 5 * at) * MIB}
                                      for at in range(20)]),
            "memory creep",
            "10 MiB a step",
        ),
        (
            planted([HEALTHY], beats=[{"allocated_bytes": (500 + 50 * at) * MIB}
                                      for at in range(20)]),
            "memory creep",
            "on the card",
        ),
        (
            planted([HEALTHY], beats=[{"compiles": at, "compile_s": 0.05 * at}
                                      for at in range(20)]),
            "recompiling",
            "torch.compile compiled",
        ),
        (
            planted([HEALTHY], beats=[{"alloc_retries": at // 4} for at in range(20)]),
            "allocator retries",
            "after step",
        ),
        (
            planted([HEALTHY], beats=[{"reserved_bytes": 4096 * MIB, "peak_bytes": 2048 * MIB}]),
            "fragmentation",
            "2.00 GiB (50 %)",
        ),
        (
            planted([HEALTHY], beats=[{"looks": 80, "blocked": 40, "blocked_at": "t.py:3 (item)"}]),
            "host-blocked",
            "t.py:3",
        ),
        (
            planted([HEALTHY], device=(0.1, 5.0, 9.0, 0.4, 3.0, 0.5), busy=40.0),
            "launch-bound",
            "busy 40 %",
        ),
        (
            planted(
                [HEALTHY],
                beats=[{"allocated_bytes": 70 * MIB, "peak_bytes": 90 * MIB}],
                done=ev.LoopDone(
                    t=90 * SECOND, outcome="failed", part="backward",
                    error="OutOfMemoryError: CUDA out of memory",
                ),
            ),
            "out of memory",
            "in backward",
        ),
    ],
)  # fmt: skip
def test_a_planted_cause_gets_its_verdict_and_no_other(
    view: RunView, rule: str, words: str
) -> None:
    (verdict,) = loop_verdicts(view)
    assert verdict.rule == rule
    assert words in verdict.finding
    table = verdict_table(view)
    assert table is not None
    assert rule in grid(table)


@pytest.mark.parametrize(("busy", "nodes", "said"), [
    (98.0, ("a", "a"), True), (60.0, ("a", "a"), False), (98.0, ("a", "b"), False),
])  # fmt: skip
def test_ranks_that_share_processors_that_are_all_busy(
    busy: float, nodes: tuple[str, str], said: bool
) -> None:
    view = planted([HEALTHY, [usual(forward=25.0)] * STEPS], nodes=nodes)
    readings = SeriesView(array("q", [2 * SECOND, 3 * SECOND]), array("d", [busy, busy]), 2)
    (verdict,) = loop_verdicts(replace(view, host_cpu=readings))
    assert verdict.rule == "straggler"
    assert ("98 % busy" in verdict.finding) == said
    assert ("OMP_NUM_THREADS" in verdict.remedy) == said


def test_on_a_card_the_wait_counts_that_the_card_felt() -> None:
    """Batches that are waited for while the card still works cost nothing."""
    steps = [usual(input=10.0)] * STEPS
    hidden, exposed = (0.1, 5.0, 9.0, 0.4, 12.0, 0.5), (9.0, 2.0, 9.0, 0.4, 6.0, 0.5)
    assert found(planted([steps], device=hidden, busy=97.0)) == []
    assert found(planted([steps], device=exposed, busy=60.0)) == ["input-bound"]


def test_a_card_that_is_behind_or_busy_is_not_launch_bound() -> None:
    behind = (0.1, 9.0, 4.0, 0.4, 5.0, 0.5)
    assert found(planted([HEALTHY], device=behind, busy=60.0)) == []
    assert found(planted([HEALTHY], device=(0.1, 5.0, 9.0, 0.4, 3.0, 0.5), busy=99.0)) == []


@pytest.mark.parametrize(
    ("usual_ms", "large_ms", "times", "said"),
    [
        (0.0, 1500.0, (19, 39, 59, 79, 99), "5 times, 1.5 s each on average"),
        (0.0, 1500.0, (50,), "once, 1.5 s"),
        (20.0, 600.0, (50,), "26.4 ms a step on average, at most 600 ms"),
    ],
)
def test_what_lies_in_most_steps_is_not_told_by_the_longest(
    usual_ms: float, large_ms: float, times: tuple[int, ...], said: str
) -> None:
    steps = [(("between", large_ms if at in times else usual_ms), *usual()) for at in range(STEPS)]
    (verdict,) = loop_verdicts(planted([steps]))
    assert verdict.finding.startswith("work between steps took")
    assert verdict.finding.endswith(said)


def test_a_card_that_is_busy_promises_no_gain_to_a_host_that_waits_for_it() -> None:
    beats = [{"looks": 80, "blocked": 40, "blocked_at": "t.py:3 (item)"}]
    (waits,) = loop_verdicts(planted([HEALTHY], beats=beats, device=(2, 5, 9, 1, 3, 1), busy=60.0))
    (full,) = loop_verdicts(planted([HEALTHY], beats=beats, device=(2, 5, 9, 1, 3, 1), busy=97.0))
    assert waits.test.endswith("of the looks, and the pace rises")
    assert "the pace hardly rises, for the card was busy 97 % of the time" in full.test
    assert full.weight < waits.weight


def test_how_busy_a_card_was_is_of_the_time_of_warm_steps() -> None:
    """Not of the time before the loop, in which it had nothing to do."""
    view = planted([HEALTHY], device=(0.1, 5.0, 9.0, 0.4, 3.0, 0.5), busy=95.0)
    (loop,) = view.loops
    times, values = array("q", [1, SECOND, 2 * SECOND]), array("d", [0.0, 0.0, 95.0])
    late = replace(view.cards[0], series={"utilization": SeriesView(times, values, 3)})
    assert found(replace(view, cards={0: late})) == []
    assert loop.rows.start_ns(10)[0] > SECOND


def test_at_most_three_the_heaviest_first() -> None:
    steps = [((("evaluation", 40.0)), *usual(input=30.0)) for _ in range(STEPS)]
    beats = [
        {"compiles": at, "compile_s": 0.4 * at, "alloc_retries": at, "rss_bytes": MIB}
        for at in range(20)
    ]
    assert len(found(planted([steps], beats=beats))) == 3


@pytest.mark.parametrize("device", [None, (10.4,)])
def test_steps_that_are_nothing_but_waiting_have_no_pace_to_rise_to(
    device: Sequence[float] | None,
) -> None:
    """As of a loop that measures its loader; the card's clock may say a little more than all."""
    (verdict,) = loop_verdicts(planted([[(("input", 10.0),)] * STEPS], device=device, busy=50.0))
    assert verdict.rule == "input-bound"
    assert verdict.finding.startswith("100 % of the time")
    assert verdict.test.endswith("the pace rises from 100 steps/s")


def test_a_long_training_is_judged_without_making_lists_of_its_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranks = [[usual()] * 3000, [usual(forward=25.0)] * 3000]
    view = planted(ranks, beats=LEVEL, device=(2, 5, 9, 1, 3, 1), busy=95.0)
    asked: list[int] = []
    for name in ("index", "count", "wall_ms", "part_ms", "device_ms", "start_ns"):
        column = getattr(LoopRows, name)

        def counted(*given: Any, column: Any = column) -> Any:
            asked.append(len(found := column(*given)))
            return found

        monkeypatch.setattr(LoopRows, name, counted)
    assert found(view) == ["straggler"]
    assert max(asked) <= COMPARED
