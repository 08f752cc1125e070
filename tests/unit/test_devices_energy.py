"""Energy: a counter that can be trusted, or power integrated and said so."""

from __future__ import annotations

import pytest

from llmprof.core.devices.energy import EnergyMeter
from llmprof.core.events.merge import merge_card
from tests.unit.fake_binding import Clock, FakeNvml, cards_of, error

S = 1_000_000_000


def test_a_counter_passes_through() -> None:
    meter = EnergyMeter()
    assert [meter.counter(at * S, 100.0 + at).value for at in range(4)] == [100, 101, 102, 103]
    assert not meter.estimates


def test_a_reset_is_a_gap_and_never_a_negative_rate() -> None:
    meter = EnergyMeter()
    readings = [meter.counter(at * S, joules) for at, joules in enumerate((50.0, 60.0, 2.0, 5.0))]
    assert [reading.value for reading in readings] == [50, 60, None, 5]
    assert readings[2].reason == "the counter was reset"


def test_a_counter_that_stands_still_under_load_is_not_believed() -> None:
    meter = EnergyMeter()
    values = []
    for at in range(0, 30, 2):
        meter.power(at * S, 300.0)
        values.append(meter.counter(at * S, 7.0).value)
    assert values[0] == 7
    assert values[-1] is None
    assert meter.estimates
    assert meter.estimate().value == pytest.approx(28 * 300.0)


def test_a_counter_that_stands_still_without_power_is_only_idle() -> None:
    meter = EnergyMeter()
    meter.power(0, 1.0)
    assert meter.counter(0, 7.0).value == 7
    assert meter.counter(60 * S, 7.0).value == 7


def test_power_is_integrated_by_trapezoids_over_uneven_times() -> None:
    meter = EnergyMeter()
    for at, watts in ((0.0, 100.0), (1.0, 200.0), (1.5, 200.0), (3.5, 0.0)):
        meter.power(int(at * S), watts)
    assert meter.estimate().value == pytest.approx(150 + 100 + 200)


def test_a_gap_in_power_breaks_the_integral_once() -> None:
    meter = EnergyMeter()
    meter.power(0, 100.0)
    meter.power(60 * S, 100.0)
    assert meter.estimate().value is None
    meter.power(61 * S, 100.0)
    assert meter.estimate().value == pytest.approx(100)


def test_without_counter_and_power_energy_is_unknown() -> None:
    assert EnergyMeter().estimate().value is None


def test_a_card_before_volta_gets_an_estimate_under_another_name() -> None:
    clock = Clock()
    cards = cards_of(FakeNvml().set("nvmlDeviceGetTotalEnergyConsumption", error(3)), clock)
    card = cards.read().cards[0]
    for _ in range(8):
        clock.advance(0.25)
        card = merge_card(card, cards.read().cards[0])
    assert card.metrics["energy"].value is None
    assert card.metrics["energy"].reason == "this card does not report it"
    assert card.metrics["energy_estimated"].value == pytest.approx(2 * 350.5)


def test_a_card_with_a_counter_has_no_estimate() -> None:
    assert "energy_estimated" not in cards_of(FakeNvml()).read().cards[0].metrics
