"""The host's floor of a step: which steps tell it, and of which of their phases."""

from __future__ import annotations

from typing import Any

import pytest

from llmprof.core.document.host_floors import HostFloor, HostFloors
from llmprof.core.document.sources import sources_of
from llmprof.core.spec.case import Case
from tests.builders.planted import Times, case, run, view

STEP: Times = {"forward": [10.0] * 8, "backward": [20.0] * 8, "optimizer": [6.0] * 8}
AHEAD, BEHIND = 0.3, 1.0  # share of a phase in which the host launches


def floors(*cells: tuple[Case, Times, Any]) -> HostFloors:
    """Of steps, each with its times and with the share of them in which the host launches."""
    events = [
        event
        for at, (each, times, host) in enumerate(cells)
        for event in run(at, each, times, host=host)
    ]
    return HostFloors(sources_of([(view([each for each, _, _ in cells], events), None)]))


def longer(times: Times, factor: float) -> Times:
    return {phase: [factor * each for each in taken] for phase, taken in times.items()}


def test_a_step_of_which_the_card_sets_the_pace_tells_nothing() -> None:
    assert floors((case(), STEP, AHEAD)).of(case()) == HostFloor()


def test_phases_whose_pace_the_host_sets_count_and_the_step_where_they_are_most_of_it() -> None:
    some = {"forward": BEHIND, "backward": AHEAD, "optimizer": AHEAD}
    found = floors((case(), STEP, some)).of(case())
    assert found.launches_ms == pytest.approx(10.0)
    assert found.shortest is None
    most = {"forward": BEHIND, "backward": BEHIND, "optimizer": AHEAD}
    found = floors((case(), STEP, most)).of(case())
    assert found.launches_ms == pytest.approx(30.0)
    assert found.shortest is not None
    assert found.shortest.ms == pytest.approx(36.0, rel=0.1)  # with the card's own optimizer


def test_the_least_of_each_phase_counts_and_the_shortest_step_says_where_it_ran() -> None:
    long, short = case(context_length=512), case(context_length=128)
    forward = {"forward": BEHIND, "backward": AHEAD, "optimizer": AHEAD}
    found = floors(
        (long, longer(STEP, 2), BEHIND), (short, STEP, BEHIND), (long, longer(STEP, 0.5), forward)
    ).of(case(context_length=256, batch_size=1))
    assert found.launches_ms == pytest.approx(5.0 + 20.0 + 6.0)
    assert found.shortest is not None
    assert found.shortest.context_length == 128


@pytest.mark.parametrize(
    ("ran", "asked", "told"),
    [
        ("tf32", "fp32", True),
        ("fp32", "tf32", True),
        ("fp32", "bf16", True),
        ("bf16", "fp32", False),
        ("bf16", "fp16", False),
    ],
)
def test_which_precision_tells_of_which(ran: Any, asked: Any, told: bool) -> None:
    found = floors((case(precision=ran), STEP, BEHIND)).of(case(precision=asked))
    assert (found.launches_ms > 0, found.shortest is not None) == (told, told)


def test_its_own_precision_comes_before_fp32() -> None:
    low = case(precision="bf16")
    found = floors((case(), STEP, BEHIND), (low, longer(STEP, 2), BEHIND)).of(low)
    assert found.launches_ms == pytest.approx(72.0)


def test_other_launches_and_other_modes_tell_nothing() -> None:
    others = [case(optimizer="fused"), case(mode="forward-backward"), case(attention="sdpa")]
    assert floors(*((each, STEP, BEHIND) for each in others)).of(case()) == HostFloor()
