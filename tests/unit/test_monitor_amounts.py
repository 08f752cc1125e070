"""Figures of the monitor: one unit for what stands together, no bare zero for a little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprof.core.devices.metrics import METRICS
from llmprof.core.events import CardSample, Metric
from llmprof.core.monitor import amounts, words

GIB = 2**30


def card(**metrics: float | None) -> CardSample:
    return CardSample(index=0, metrics={name: Metric(value) for name, value in metrics.items()})


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("energy", 0.4, "0.4 J"),
        ("energy", 49.0, "49 J"),
        ("energy", 3490.2, "3.5 kJ"),
        ("energy", 31.4e6, "31.4 MJ"),
        ("energy", 0.0, "0 J"),
        ("energy", None, "n/a"),
        ("pcie_tx", 0.0, "0 B/s"),
        ("pcie_tx", 900.0, "900 B/s"),
        ("pcie_tx", 40_000.0, "39 KiB/s"),
        ("pcie_tx", 2.2e6, "2.1 MiB/s"),
        ("memory_used", 100 * 1024.0, "100 KiB"),
        ("memory_used", 300.0 * 2**20, "300 MiB"),
        ("utilization", 0.3, "0.3 %"),
        ("utilization", 0.0, "0 %"),
        ("utilization", 1e-7, "<0.001 %"),
        ("ecc_errors", 2.0, "2"),
    ],
)
def test_one_figure(name: str, value: float | None, shown: str) -> None:
    assert words.amount(name, card(**{name: value})) == shown


@given(st.sampled_from(sorted(METRICS)), st.floats(0, 1e15))
def test_only_zero_prints_as_zero(name: str, value: float) -> None:
    shown = words.amount(name, card(**{name: value}))
    assert any(digit in shown for digit in "123456789") is (value > 0)


def test_what_stands_together_has_one_unit() -> None:
    busy = card(memory_used=0.3 * GIB, memory_total=80.0 * GIB, pcie_tx=2.0**20, pcie_rx=2.0**14)
    assert words.pair("memory_used", "memory_total", busy) == "0.3 / 80.0 GiB"
    assert words.several(("pcie_tx", "pcie_rx"), busy) == "1.0 / 0.02 MiB/s"
    assert words.several(("pcie_tx", "pcie_rx"), card(pcie_tx=5.0)) == "5 / n/a B/s"
    small = card(memory_used=2.0**20, memory_total=512.0 * 2**20)
    unknown = card(memory_used=2.0**20)
    assert words.pairs("memory_used", "memory_total", (busy, small, unknown)) == [
        "0.3 / 80.0 GiB",
        "<0.001 / 0.5 GiB",
        "<0.001 GiB",
    ]
    assert amounts.column((2.0 * GIB, None, 300.0 * 2**20), "B") == ["2.0 GiB", "n/a", "0.3 GiB"]
