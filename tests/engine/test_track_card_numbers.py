"""Logged numbers of a card: shown as they were when they were logged, or not at all."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmprof.core.track import card_numbers, device_clock
from llmprof.core.track.card_numbers import MOST_TOGETHER, REGULAR, TOGETHER_NS
from llmprof.core.track.device_clock import (
    MOST_HANDED_ON,
    MOST_PASSED,
    MOST_SKIPPED,
    MOST_WAITING,
    Kept,
)
from llmprof.core.track.steps import as_number
from llmprof.core.track.tracker import Row
from tests.builders.fake_card import MS, FakeCard, FakeEvent

SETTLED = REGULAR + 2 * MOST_TOGETHER + 8  # steps after which tensors stay as they are
COSTLY_NS = 100_000


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> FakeCard:
    """On which a copy at once is dear, and steps are short."""
    return FakeCard(monkeypatch, COSTLY_NS, 4 * MS)


def number(value: float) -> torch.Tensor:
    """In memory of its own."""
    return torch.tensor(float(value))


def settled(card: FakeCard, steps: int = SETTLED) -> list[float | None]:
    """Steps after which its tensors stay; what they logged."""
    for at in range(steps):
        card.step(loss=number(at))
    return [float(at) for at in range(steps)]


def test_where_copies_cost_little_every_number_comes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card = FakeCard(monkeypatch, 5_000, 37 * MS)
    for at in range(100):
        card.step(loss=number(at))
        assert card.rows() == [float(before) for before in range(at + 1)]
    assert card.calls.count("copy") == 100
    assert "copy all" not in card.calls


def test_where_they_cost_much_numbers_come_together(card: FakeCard) -> None:
    expected = settled(card)
    card.calls.clear()
    expected += [float(at) for at in range(10 * MOST_TOGETHER)]
    for at in range(10 * MOST_TOGETHER):
        card.step(loss=number(at))
    assert card.calls.count("copy") == 0
    assert card.calls.count("copy all") == 10
    assert card.calls.count("record") + card.calls.count("query") <= 5 * 10
    assert card.finish() == expected


def test_tensors_stay_themselves_once_they_were_seen_to_stay_as_they_are(card: FakeCard) -> None:
    settled(card)
    copies = []
    for at in range(2 * MOST_TOGETHER):
        values = card.log(loss=number(at))
        logged = values["loss"]
        if isinstance(logged, card_numbers.Held):
            assert logged.tensor is not None
            copies.append(logged.copy is not None)
        else:
            assert isinstance(logged, tuple)  # looked at when a later step ends
        card.end_step(values)
    assert sum(copies) <= 6  # the first and the last of those that are fetched together


def test_numbers_wait_for_half_a_second_of_steps_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    card = FakeCard(monkeypatch, COSTLY_NS, 40 * MS)
    for at in range(200):
        card.step(loss=number(at))
        waiting = at + 1 - len(card.rows())
        assert waiting * card.step_ns <= TOGETHER_NS + MOST_HANDED_ON * card.step_ns
    assert card.finish() == list(range(200))


def test_of_long_steps_numbers_come_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    card = FakeCard(monkeypatch, COSTLY_NS, 200 * MS)
    settled(card)
    assert "copy all" not in card.calls
    assert len(card.rows()) == SETTLED


def test_a_name_that_is_logged_now_and_then_comes_at_once(card: FakeCard) -> None:
    for at in range(300):
        values = card.log(loss=number(at))
        if at % 5 == 0:
            values |= card.log(rare=number(-at))
            assert isinstance(values["rare"], torch.Tensor)
        card.end_step(values)
    assert card.finish() == list(range(300))
    rare = card.rows("rare")
    assert [value for value in rare if value is not None] == list(range(0, -300, -5))


def test_a_name_that_is_left_out_is_fetched_at_once(card: FakeCard) -> None:
    expected = settled(card)
    card.step(loss=number(1))
    card.step(loss=number(2))
    card.calls.clear()
    card.end_step({})
    assert card.calls.count("copy all") == 1
    assert card.finish() == [*expected, 1.0, 2.0, None]


def changed(tensor: torch.Tensor) -> None:
    """In place, as torch sees it."""
    tensor.zero_()


def changed_unseen(tensor: torch.Tensor) -> None:
    """As by a collective."""
    tensor.data.zero_()


@pytest.mark.parametrize("change", [changed, changed_unseen])
def test_tensors_that_are_always_changed_are_shown_as_they_were(
    card: FakeCard, change: Callable[[torch.Tensor], None]
) -> None:
    for at in range(1, 200):
        loss = number(at)
        values = card.log(loss=loss)
        change(loss)
        card.end_step(values)
    assert card.finish() == list(range(1, 200))
    assert card.calls.count("copy") < 20


@pytest.mark.parametrize("change", [changed, changed_unseen])
def test_tensors_that_are_changed_all_of_a_sudden_are_never_shown_so(
    card: FakeCard, change: Callable[[torch.Tensor], None]
) -> None:
    expected = settled(card)
    tensors = [number(at) for at in range(1, 200)]
    for tensor in tensors:
        values = card.log(loss=tensor)
        change(tensor)
        card.end_step(values)
    found = card.finish()
    expected += list(range(1, 200))
    pairs = list(zip(found, expected, strict=True))
    assert all(ours in (truth, None) for ours, truth in pairs)
    assert sum(ours is None for ours, _ in pairs) <= 2 * MOST_TOGETHER
    assert found[-MOST_TOGETHER:] == expected[-MOST_TOGETHER:]  # by copies


def test_one_change_that_torch_sees_is_enough(card: FakeCard) -> None:
    expected = settled(card)
    kept = [number(at) for at in range(3 * MOST_TOGETHER)]
    for at, tensor in enumerate(kept):
        values = card.log(loss=tensor)
        if at % 50 == 49:
            tensor.mul_(2)
        card.end_step(values)
    found = card.finish()[len(expected) :]
    assert all(ours in (at, None) for at, ours in enumerate(found))
    assert found[49] is None


def test_a_change_before_the_card_has_read_it_counts(card: FakeCard) -> None:
    settled(card)
    card.keeps_up = False
    tensors = [number(at) for at in range(1, 2 * MOST_TOGETHER)]
    for tensor in tensors:
        card.step(loss=tensor)
    for tensor in tensors:
        tensor.zero_()  # on another stream, perhaps
    card.reached = card.recorded
    assert 0.0 not in card.finish()[SETTLED:]


def test_memory_that_is_written_again_and_again(card: FakeCard) -> None:
    static = number(0)
    for at in range(200):
        static.data.fill_(at)  # as a graph does that is replayed
        card.step(loss=static)
    assert card.finish() == list(range(200))
    expected = settled(card)
    for at in range(100):
        static.data.fill_(at)
        card.step(loss=static)
    found = card.finish()[200:]
    pairs = zip(found, [*expected, *range(100)], strict=True)
    assert all(ours in (truth, None) for ours, truth in pairs)
    assert found[-MOST_TOGETHER:] == list(range(100 - MOST_TOGETHER, 100))


def test_several_graphs_in_turn(card: FakeCard) -> None:
    static = [number(0) for _ in range(REGULAR + 3)]
    for at in range(300):
        static[at % len(static)].data.fill_(at)
        card.step(loss=static[at % len(static)])
    found = card.finish()
    assert all(ours in (at, None) for at, ours in enumerate(found))
    assert found[-MOST_TOGETHER:] == list(range(300 - MOST_TOGETHER, 300))


def freed(tensor: torch.Tensor) -> None:
    """As a framework does that shards."""
    tensor.untyped_storage().resize_(0)


def taken_away(tensor: torch.Tensor) -> None:
    """As a compiler does whose graphs use memory again."""
    torch._C._set_throw_on_mutable_data_ptr(tensor)


@pytest.mark.parametrize("lose", [freed, taken_away])
def test_a_tensor_that_lost_its_memory_is_unknown(
    card: FakeCard, lose: Callable[[torch.Tensor], None]
) -> None:
    expected = settled(card)
    for at in range(2 * MOST_TOGETHER):
        loss = number(at + 1)
        values = card.log(loss=loss)
        if at == 3:
            lose(loss)
        card.end_step(values)
    found = card.finish()[len(expected) :]
    assert found[3] is None
    assert all(ours in (at + 1, None) for at, ours in enumerate(found))
    assert not card.tracker.problem


def test_kinds_that_cannot_be_put_together_come_at_once(
    card: FakeCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("no such kernel")

    settled(card)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "stack", refuse)
        for at in range(2 * MOST_TOGETHER):
            card.step(loss=number(at))
    expected = settled(card)
    assert card.finish()[-len(expected) :] == expected


def test_with_collectives_none_stays_itself(
    card: FakeCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card_numbers, "_has_collectives", lambda: True)
    expected = settled(card)
    for at in range(100):
        loss = number(at)
        values = card.log(loss=loss)
        if at % 50 == 37:
            changed_unseen(loss)
        card.end_step(values)
    assert card.finish() == [*expected, *range(100)]


def test_nothing_large_is_kept_alive(card: FakeCard) -> None:
    for at in range(SETTLED):
        large = torch.full((1000,), float(at))
        alive = weakref.ref(large.untyped_storage())
        card.step(loss=large[3])
        del large
        assert alive() is None
    assert card.finish() == list(range(SETTLED))


def test_nothing_is_done_while_a_graph_is_captured(card: FakeCard) -> None:
    expected = settled(card)
    card.step(loss=number(7))
    home, card.stream = card.stream, (9, -1, 1)
    card.capturing = True  # the card asserts that it is left alone
    for at in range(3):
        assert card.log(loss=number(at)) == {}
        card.end_step({})
    card.capturing, card.stream = False, home
    card.step(loss=number(8))
    assert card.finish() == [*expected, 7.0, None, None, None, 8.0]


def test_the_driver_is_not_asked_about_the_default_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def ask() -> bool:
        asked.append(True)
        return True

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", ask)
    assert not device_clock._capturing((0, 0, 1))
    assert not asked
    assert device_clock._capturing((7, 0, 1))
    assert device_clock._capturing(object())  # of a torch that does not number them


def test_a_loop_that_ends_within_a_capture(card: FakeCard) -> None:
    settled(card)
    card.capturing = True
    card.clock.finish()
    assert len(card.rows()) == SETTLED


def test_the_end_keeps_what_has_come(card: FakeCard, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = settled(card)
    card.step(loss=number(1))
    card.reached = card.recorded + 1
    assert card.finish() == [*expected, 1.0]
    expected.append(1.0)
    more = settled(card)
    for _ in range(10):
        card.step(loss=number(2))
    card.reached = 0  # the card is far behind
    found = card.finish()
    assert len(found) == len(expected) + len(more) + 10
    assert found[-10:] == [None] * 10
    assert all(ours in (truth, None) for ours, truth in zip(found, expected + more, strict=False))


def test_a_card_that_is_lost_takes_no_row_along(
    card: FakeCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = settled(card)
    card.step(loss=number(1))

    def lost(_: str) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(card, "called", lost)
    found = card.finish()
    assert len(found) == len(expected) + 1
    assert found[-1] is None


def test_rows_that_wait_are_bounded(card: FakeCard) -> None:
    card.keeps_up = False
    for at in range(3 * MOST_WAITING):
        card.step(loss=number(at))
        assert at + 1 - len(card.rows()) <= MOST_WAITING
    held = [row for row in card.clock._waiting if row.values]
    assert len(held) <= MOST_WAITING
    assert len(card.clock._numbers.held) <= MOST_TOGETHER


def test_no_step_pays_for_all_that_came_together(card: FakeCard) -> None:
    settled(card)
    before = len(card.rows())
    for at in range(4 * MOST_TOGETHER):
        card.step(loss=number(at))
        assert len(card.rows()) - before <= MOST_HANDED_ON
        before = len(card.rows())


def test_what_waited_for_a_card_that_was_behind_goes_once_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card = FakeCard(monkeypatch, COSTLY_NS, 4 * MS)
    card.keeps_up = False
    for _ in range(200):
        card.step()
    assert len(card.rows()) < 20
    card.keeps_up = True
    for _ in range(800):
        card.step()
    assert len(card.rows()) >= 1000 - MOST_PASSED - MOST_HANDED_ON


def test_another_device_that_is_current_for_a_while_costs_times_alone(card: FakeCard) -> None:
    settled(card)
    expected = card.finish()
    home, other = card.stream, (0, 5, 1)
    for at in range(4 * MOST_TOGETHER):
        card.stream = other if at % 7 in (3, 4) else home
        card.step(loss=number(at))
    found = card.finish()[len(expected) :]
    assert len(found) == 4 * MOST_TOGETHER
    assert all(ours in (truth, None) for truth, ours in enumerate(found))
    told = [row.device_ms for row in card.tracker.rows][len(expected) :]
    assert None in told
    assert any(times is not None for times in told)


def test_names_of_several_kinds(card: FakeCard) -> None:
    for at in range(SETTLED):
        card.step(
            loss=number(at),
            norm=torch.tensor([[at]], dtype=torch.bfloat16),
            count=torch.tensor(at),
            good=torch.tensor(at % 2 == 0),
        )
    assert card.finish() == list(range(SETTLED))
    with torch.no_grad():
        nearest = torch.arange(SETTLED).bfloat16().tolist()
    assert card.rows("norm") == nearest
    assert card.rows("count") == list(range(SETTLED))
    assert card.rows("good") == [float(at % 2 == 0) for at in range(SETTLED)]


def test_of_another_stream_numbers_come_at_once(card: FakeCard) -> None:
    expected = settled(card)
    home = card.stream
    for at in range(50):
        card.stream = (7, -1, 1)
        values = card.log(loss=number(at))
        assert isinstance(values["loss"], torch.Tensor)
        card.stream = home
        card.end_step(values)
    assert card.finish() == [*expected, *range(50)]


def test_a_step_that_ends_on_another_stream_shows_nothing_wrong(card: FakeCard) -> None:
    expected = settled(card)
    values = card.log(loss=number(5))
    card.stream = (7, -1, 1)
    card.end_step(values)
    more = settled(card)
    found = card.finish()
    assert found[SETTLED] in (None, 5.0)
    assert found[SETTLED + 1] in (None, 0.0)  # in it the change is seen
    assert all(ours in (truth, None) for ours, truth in zip(found, expected, strict=False))
    assert found[SETTLED + 2 :] == more[1:]


def test_most_steps_pass_without_a_look(card: FakeCard, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = settled(card)
    looks: list[Kept] = []
    look = card.clock._look

    def counted(kept: Kept) -> None:
        looks.append(kept)
        look(kept)

    monkeypatch.setattr(card.clock, "_look", counted)
    for at in range(4 * MOST_TOGETHER):
        card.step(loss=number(at))
    assert 0 < len(looks) <= 4 * 4
    assert card.finish() == expected + [float(at) for at in range(4 * MOST_TOGETHER)]


def test_steps_without_numbers_pass_too(monkeypatch: pytest.MonkeyPatch) -> None:
    card = FakeCard(monkeypatch, COSTLY_NS, 4 * MS)
    for _ in range(200):
        card.step()
    assert len(card.rows()) >= 200 - MOST_PASSED - MOST_HANDED_ON
    assert len(card.finish()) == 200


def test_floats_beside_a_tensor_and_what_is_logged_twice(card: FakeCard) -> None:
    settled(card)
    for at in range(100):
        values: dict[str, object] = card.log(loss=number(at), rate=at / 2, count=at)
        if at % 7 == 0:
            values |= card.log(loss=number(-at))
        card.end_step(values)
    found = card.finish()[SETTLED:]
    assert found == [float(-at if at % 7 == 0 else at) for at in range(100)]
    assert card.rows("rate")[SETTLED:] == [at / 2 for at in range(100)]
    assert card.rows("count")[SETTLED:] == list(range(100))


def test_a_tensor_that_is_no_number_all_of_a_sudden_is_unknown(card: FakeCard) -> None:
    expected = settled(card)
    for at in range(100):
        card.step(loss=torch.ones(3) if at == 40 else number(at))
    found = card.finish()
    assert found[: SETTLED + 40] == [*expected, *range(40)]
    assert found[SETTLED + 40] is None
    assert found[SETTLED + 41 :] == list(range(41, 100))


@pytest.mark.parametrize("inference", [False, True])
def test_under_inference_mode_too(card: FakeCard, inference: bool) -> None:
    with torch.inference_mode(inference):
        for at in range(SETTLED):
            values = card.log(loss=number(at))
            with torch.inference_mode(False):
                card.end_step(values)
    assert card.finish() == list(range(SETTLED))


ACTIONS = ("fresh", "fresh", "fresh", "static", "twice", "none", "change", "long", "late", "stream")


@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(1, 40)), max_size=25))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_a_loop_does_no_number_is_wrong(
    monkeypatch: pytest.MonkeyPatch, stretches: list[tuple[str, int]]
) -> None:
    card = FakeCard(monkeypatch, COSTLY_NS, 4 * MS)
    static, newest = number(0), number(0)
    truth: list[int | None] = []
    for action, count in stretches:
        for _ in range(count):
            at = len(truth) + 1
            card.keeps_up = action != "late"
            card.stream = (action == "stream", -1, 1)
            loss = static if action == "static" else number(at)
            if action == "static":
                loss.data.fill_(at)
            if action == "change":
                newest.zero_()  # one that was logged before
            values = {} if action == "none" else card.log(loss=loss)
            if action == "twice":
                values |= card.log(loss=number(at))
            newest = loss
            card.end_step(values, 300 * MS if action == "long" else None)
            truth.append(None if action == "none" else at)
    found = card.finish()
    assert len(found) == len(truth)
    assert all(ours is None or ours == real for ours, real in zip(found, truth, strict=True))


def test_memory_that_is_written_again_for_a_few_steps(card: FakeCard) -> None:
    expected = settled(card)
    static = number(0)
    for at in range(60):
        graphed = 10 <= at % 32 < 14  # between those that are compared
        loss = static if graphed else number(at)
        if graphed:
            static.data.fill_(at)
        card.step(loss=loss)
    found = card.finish()[len(expected) :]
    assert all(ours in (at, None) for at, ours in enumerate(found))
    assert found[-8:] == list(range(52, 60))


def test_a_number_that_was_copied_after_its_row_ended_is_waited_for(card: FakeCard) -> None:
    edge = card.clock.boundary()  # as of a loop that was left, or of an update that ended a step
    card.reached = card.recorded
    values = card.log(loss=number(3))
    card.clock.keep(Row(0, None, [(0, "", None)], MS), edge, values)
    assert card.rows() == []
    card.reached = card.recorded
    card.clock.keep(Row(1, None, [(MS, "", None)], 2 * MS), card.clock.boundary(), {})
    assert card.rows()[0] == 3.0


def test_a_number_of_another_stream_has_an_event_of_its_own(card: FakeCard) -> None:
    card.keeps_up = False
    home, card.stream = card.stream, (7, -1, 1)
    values = card.log(loss=number(3))
    card.stream = home
    card.end_step(values)
    delivery = card.clock._waiting[0].delivery
    assert delivery is not None
    assert delivery.events is not None
    assert len(delivery.events) == 2


def test_of_steps_that_are_none_nothing_is_kept(card: FakeCard) -> None:
    home = card.stream
    for at in range(100):  # an exception ends each
        for number_of_stream in (7, 8):
            card.stream = (number_of_stream, -1, 1)
            card.log(loss=number(at))
    card.stream = home
    assert len(card.clock._apart) <= 2
    assert len(card.clock._numbers.held) <= 2
    card.step(loss=number(5))
    assert card.finish() == [5.0]


def test_numbers_leave_time_for_the_card_s_times(monkeypatch: pytest.MonkeyPatch) -> None:
    card = FakeCard(monkeypatch, 8_000, 37 * MS)
    for _ in range(200):
        card.end_step({})
    without = card.clock.every
    for at in range(200):
        card.step(loss=number(at))
    assert without < card.clock.every < MOST_SKIPPED
    assert not card.clock.together


@pytest.mark.parametrize("call", ["record", "query"])
def test_a_card_that_is_lost_ends_the_watching_and_no_training(
    card: FakeCard, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fails(*_: object) -> bool:
        raise RuntimeError("CUDA error: device-side assert triggered")

    card.keeps_up = False
    for at in range(3):
        card.step(loss=number(at))
    monkeypatch.setattr(FakeEvent, call, fails)
    assert card.clock.event() is None or call == "query"
    assert card.tracker.working is (call == "query")
    card.end_step({"loss": 3.0})
    assert not card.tracker.working
    assert "device-side assert" in card.tracker.problem
    assert card.rows() == [None, None, None, 3.0]


def test_the_step_at_whose_end_a_card_is_lost_is_handed_on(
    card: FakeCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    for at in range(2):
        card.step(loss=float(at))
    monkeypatch.setattr(FakeEvent, "record", fails)
    card.step(loss=2.0)
    assert card.rows() == [0.0, 1.0, 2.0]


def test_what_is_no_real_number_is_none_to_log() -> None:
    assert as_number(torch.tensor([2.0])) == 2.0
    assert as_number(torch.zeros(2)) is None
    assert as_number(torch.tensor(1j)) is None  # of a card it would fail as it arrives, in a step
