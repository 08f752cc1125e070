"""What a newer sample leaves of an older one: nothing that is not known any more."""

from __future__ import annotations

from typing import Any

import pytest

from llmprof.core.devices.nvml import NvmlCards
from llmprof.core.events import CardProcess, CardSample, DeviceSample, HostSample, Metric
from llmprof.core.events.merge import merge_card
from llmprof.core.monitor.words import as_object
from llmprof.core.state.histories import CardHistory
from llmprof.core.state.reducer import Reducer
from tests.unit.fake_binding import Clock, FakeNvml, cards_of, error

OTHER = CardProcess(pid=7, memory_bytes=1 << 30, sm_percent=40.0)
BUSY = CardSample(
    index=0,
    name="H100",
    metrics={"power": Metric(250.0), "throttle": Metric(32.0), "other_processes": Metric(1.0)},
    throttle=("software thermal",),
    processes=(OTHER,),
)


def test_throttling_holds_until_it_is_read_again() -> None:
    unread = CardSample(index=0, metrics={"power": Metric(260.0)})
    assert merge_card(BUSY, unread).throttle == ("software thermal",)
    cleared = CardSample(index=0, metrics={"throttle": Metric(0.0)})
    assert merge_card(BUSY, cleared).throttle == ()


@pytest.mark.parametrize("state", ["lost", "stale"])
def test_of_a_card_that_does_not_answer_nothing_is_known(state: str) -> None:
    silent = CardSample(
        index=0,
        state=state,  # type: ignore[arg-type]
        metrics={"utilization": Metric(None, "GPU is lost")},
    )
    history = CardHistory()
    history.append(1, BUSY)
    history.append(2, silent)
    last = history.last
    assert last is not None
    assert {metric.value for metric in last.metrics.values()} == {None}
    assert {metric.reason for metric in last.metrics.values()} == {"GPU is lost"}
    assert (last.throttle, last.processes, last.name) == ((), None, "H100")
    assert history.view().series["power"].last is None


def test_processes_that_cannot_be_read_are_unknown() -> None:
    unread = CardSample(index=0, metrics={"power": Metric(1.0)})
    assert merge_card(BUSY, unread).processes == (OTHER,)
    failed = CardSample(index=0, metrics={"other_processes": Metric(None, "no permission")})
    assert merge_card(BUSY, failed).processes is None


def test_unknown_throttling_is_null_and_not_false() -> None:
    reducer = Reducer()
    sample = DeviceSample(t=1, host=HostSample(), cards=(BUSY,))
    reducer.apply(sample)
    card = told(reducer)
    assert (card["throttled"], card["throttle"]) == (True, ["software thermal"])
    reducer.apply(DeviceSample(t=2, host=HostSample(), cards=(CardSample(index=0, state="lost"),)))
    card = told(reducer)
    assert (card["throttled"], card["throttle"]) == (None, None)


def told(reducer: Reducer) -> dict[str, Any]:
    cards: Any = as_object(reducer.view(), 1)["cards"]
    (card,) = cards
    assert isinstance(card, dict)
    return card


def test_a_card_that_is_lost_in_a_slow_call_loses_what_was_known() -> None:
    fake, clock = FakeNvml(), Clock()
    cards: NvmlCards = cards_of(fake, clock)
    history = CardHistory()
    for at in range(8):
        history.append(at, cards.read().cards[0])
        cards.catch_up()
        clock.advance(0.25)
    fake.set("nvmlDeviceGetPcieThroughput", error(15))
    for at in range(8, 40):
        history.append(at, cards.read().cards[0])
        cards.catch_up()
        clock.advance(0.25)
    last = history.last
    assert last is not None
    assert last.state == "lost"
    assert {metric.value for metric in last.metrics.values()} == {None}
