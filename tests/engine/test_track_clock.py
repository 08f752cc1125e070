"""What a tracked step is charged: how many steps are timed, where numbers land, one update once."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch

from llmprof.core.track import automatic as automatic_module
from llmprof.core.track import tracker as tracker_module
from llmprof.core.track.automatic import AutomaticTracker
from llmprof.core.track.card_numbers import SLOTS, Landing
from llmprof.core.track.device_clock import ALLOWED_NS, MOST_SKIPPED, Pace, allowed_ns
from llmprof.core.track.hooks import Hooks
from llmprof.core.track.parts import GAP
from llmprof.core.track.tracker import COUNTED, Row, Tracker


def paced(cost_ns: int, wall_ns: int, steps: int = 200) -> tuple[Pace, int]:
    """A loop whose timed steps cost so much; how many of them were timed."""
    pace, count = Pace(), 0
    for at in range(steps):
        timed = at % pace.every == 0
        count += timed
        if timed:
            pace.timed(cost_ns, allowed_ns(wall_ns))
    return pace, count


def test_as_many_steps_are_timed_as_may_be_paid_for() -> None:
    cheap, count = paced(ALLOWED_NS // 2, 40_000_000)
    assert cheap.every == 1
    assert count == 200
    costly, count = paced(5 * ALLOWED_NS, 40_000_000)
    assert costly.every == 5
    assert count * 5 * ALLOWED_NS <= 200 * ALLOWED_NS * 1.2
    short, _ = paced(ALLOWED_NS // 2, 400_000)  # 0.25 % of it is 1 µs
    assert short.every == 10
    assert paced(10**9, 1)[0].every == MOST_SKIPPED


@pytest.mark.parametrize("times", [COUNTED, 2 * COUNTED])
def test_timed_steps_are_not_the_ones_in_which_our_own_time_counts(times: int) -> None:
    pace, _ = paced(times * ALLOWED_NS, 40_000_000)
    assert pace.every == times + 1
    steps = range(COUNTED * pace.every)
    both = [at for at in steps if at % pace.every == 0 and at % COUNTED == 0]
    assert len(both) == 1


def test_a_call_that_was_held_up_does_not_count() -> None:
    pace = Pace()
    for at in range(30):
        pace.timed(50_000_000 if at % 4 == 0 else ALLOWED_NS // 2, ALLOWED_NS)
    assert pace.every == 1


def test_numbers_of_every_kind_land_and_places_are_used_again() -> None:
    landing = Landing(pinned=False)
    weight = torch.nn.Parameter(torch.full((1, 1), 2.5))
    with torch.inference_mode():
        first = landing.copy(torch.tensor(1.5))
    kinds = [weight, weight.sum(), torch.tensor(7), torch.tensor(0.5, dtype=torch.bfloat16)]
    places = [landing.copy(tensor) for tensor in kinds]
    with torch.no_grad():
        weight.zero_()  # in place, after it was logged
    assert [landing.take(place) for place in (first, *places)] == [1.5, 2.5, 2.5, 7.0, 0.5]
    seen = {landing_place(landing) for _ in range(4 * SLOTS)}
    assert len(seen) <= SLOTS


def landing_place(landing: Landing) -> int:
    """Where a number lands that is read at once."""
    place = landing.copy(torch.tensor(1.0))
    assert landing.take(place) == 1.0
    return int(place.data_ptr())


def test_all_that_is_done_on_the_training_thread_is_counted() -> None:
    tracker = Tracker()
    tracker.begin()
    calls: list[Callable[[], object]] = [
        tracker.begin_input,
        lambda: tracker.end_input(batch=True),
        lambda: tracker.enter("backward"),
        lambda: tracker.leave(GAP),
        lambda: tracker.update_begins(None),
        tracker.closure_begins,
        lambda: tracker.closure_ended(True),
        lambda: tracker.update_ended(0),
        lambda: tracker.end_phase(tracker.begin_phase("check")),
        lambda: tracker.log({}, 0),
        tracker.left_loop,
        tracker.begin_step,
        tracker.end_step,
    ]
    for call in calls:
        before = tracker.calls
        call()
        assert tracker.calls > before, call


def test_our_own_time_is_that_of_the_steps_in_which_it_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = itertools.count(step=1000)
    monkeypatch.setattr(tracker_module, "_now", lambda: next(reads))
    tracker = Tracker()
    tracker.begin()
    for _ in range(10 * COUNTED):
        tracker.begin_step()
        tracker.leave(tracker.enter("backward"))
    assert tracker.own_steps == 10
    assert tracker.calls == 30 * COUNTED
    # three calls, of which one has a step's end within it and reads the clock for the next
    assert tracker.own_us(0.0) == pytest.approx(3.0, rel=0.1)
    assert tracker.own_us(0.5) - tracker.own_us(0.0) == pytest.approx(1.5, rel=0.1)


class SlowClock:
    """A device's clock on which the end of a step is all that takes time."""

    timed = False

    def __init__(self, keep: Callable[[], object]) -> None:
        self._keep = keep

    def event(self) -> None:
        """None is recorded."""

    def boundary(self) -> None:
        """None is recorded."""

    def keep(self, row: Row, end: object | None, values: dict[str, object]) -> None:
        """Takes its time."""
        self._keep()

    def finish(self) -> None:
        """Nothing is left."""


@pytest.mark.parametrize("optimizers", [1, 2])
def test_the_end_of_a_step_is_our_own_time_where_updates_end_it(
    optimizers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = [0]
    for module in (tracker_module, automatic_module):
        monkeypatch.setattr(module, "_now", lambda: passed[0])
    tracker = AutomaticTracker(lambda: True)
    tracker.device = SlowClock(lambda: passed.__setitem__(0, passed[0] + 5000))
    turns = [object() for _ in range(optimizers)]
    for _ in range(10 * COUNTED):
        tracker.leave(tracker.enter("backward"))
        for optimizer in turns:
            tracker.update_ended(tracker.update_begins(optimizer))
    assert tracker.own_us(0.0) == pytest.approx(5.0, rel=0.2)


class Slower(torch.optim.SGD):
    """Calls the step of the class that it extends."""

    def step(self, closure=None):  # type: ignore[no-untyped-def]
        """One update."""
        return super().step(closure)


@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.SGD, Slower])
def test_an_update_counts_once(kind: type[torch.optim.SGD], scheduled: bool) -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = kind([weight], lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1) if scheduled else None
    tracker = Tracker()
    hooks = Hooks(tracker)

    def closure() -> torch.Tensor:
        loss = weight.sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    try:
        tracker.begin()
        for _ in range(5):
            tracker.begin_step()
            closure()
            optimizer.step()
            optimizer.step(closure)
            if scheduler is not None:
                scheduler.step()
            tracker.end_step()
        assert tracker.updates == 10
        parts = [part for _, part, _ in tracker.rows[-1].marks]
        assert parts.count("optimizer") == 3  # one is in two, before and after its closure
        assert parts.count("backward") == 2
        failing = kind([weight], lr=0.1)
        with pytest.raises(ZeroDivisionError):
            failing.step(lambda: 1 / 0)
        optimizer.step()
        assert tracker.updates == 11
    finally:
        hooks.remove()
    assert not tracker.problem
