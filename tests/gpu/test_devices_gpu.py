"""The sources on a real card. Skipped where torch has none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from llmprof.core import events as ev
from llmprof.core.devices.metrics import METRICS
from llmprof.core.devices.nvml import open_source
from llmprof.core.devices.source import DeviceSource
from llmprof.core.events.matching import match, visible
from llmprof.core.events.merge import merge
from tests.waiting import rest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA card"),
]

IDENTITY = """
import torch
p = torch.cuda.get_device_properties(0)
print(p.uuid, f"{p.pci_domain_id:04x}:{p.pci_bus_id:02x}:{p.pci_device_id:02x}.0")
"""


@pytest.fixture(scope="module")
def source() -> Iterator[DeviceSource]:
    opened = open_source(owner=os.getpid(), wait_s=30)
    yield opened
    opened.close()


def collect(
    source: DeviceSource, seconds: float, work: Callable[[], object] = lambda: rest(0.1)
) -> list[ev.DeviceSample]:
    """Samples at 4 Hz while something works."""
    samples = [source.poll()]
    end = due = time.monotonic()
    while end - due < seconds:
        source.catch_up()
        following = time.monotonic() + 0.25
        while time.monotonic() < following:
            work()
        samples.append(source.poll())
        end = time.monotonic()
    return samples


def last(samples: list[ev.DeviceSample]) -> ev.CardSample:
    state = samples[0]
    for sample in samples[1:]:
        state = merge(state, sample)
    return state.cards[0]


@pytest.fixture(scope="module")
def all_metrics(source: DeviceSource) -> ev.CardSample:
    return last(collect(source, 1.0))


def matmul() -> Callable[[], object]:
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    b = torch.empty_like(a)

    def work() -> None:
        for _ in range(10):
            torch.mm(a, a, out=b)
        torch.cuda.synchronize()

    return work


def value(card: ev.CardSample, name: str) -> float:
    metric = card.metrics[name]
    assert metric.value is not None, metric.reason
    return metric.value


def test_every_metric_is_a_value_or_a_reason(all_metrics: ev.CardSample) -> None:
    shown_on_demand = {"sm_activity", "tensor_activity", "dram_activity", "sm_occupancy"}
    assert set(METRICS) - set(all_metrics.metrics) - shown_on_demand <= {"energy_estimated"}
    for name, metric in all_metrics.metrics.items():
        assert (metric.value is None) == bool(metric.reason), name
    assert all_metrics.name
    assert all_metrics.uuid
    assert all_metrics.pci_bus_id
    assert 0 < value(all_metrics, "memory_used") < value(all_metrics, "memory_total")
    assert 0 < value(all_metrics, "power") <= 1.2 * value(all_metrics, "power_limit")
    assert value(all_metrics, "sm_clock") <= value(all_metrics, "sm_clock_max")
    assert 10 < value(all_metrics, "temperature") < 100


@pytest.mark.parametrize("form", ["unset", "index", "uuid", "short uuid"])
def test_torch_and_nvml_mean_the_same_card(all_metrics: ev.CardSample, form: str) -> None:
    assert all_metrics.uuid is not None
    named = {"index": "0", "uuid": all_metrics.uuid, "short uuid": all_metrics.uuid[:12]}.get(form)
    variables = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    if named is not None:
        variables["CUDA_VISIBLE_DEVICES"] = named
    said = subprocess.run(
        [sys.executable, "-c", IDENTITY],
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout.split()
    uuid, bus = said
    assert match([all_metrics], uuid, None) is all_metrics
    assert match([all_metrics], None, bus) is all_metrics
    assert visible([all_metrics], named, "PCI_BUS_ID") == (0,)


def test_memory_follows_an_allocation(source: DeviceSource) -> None:
    torch.zeros(1, device="cuda")
    torch.cuda.empty_cache()  # of other tests, out of which the block would be taken
    before = last(collect(source, 1.2))
    block = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    grown = last(collect(source, 1.2))
    assert value(grown, "memory_used") - value(before, "memory_used") == pytest.approx(
        block.numel(), rel=0.05
    )


def test_we_are_among_the_processes_or_the_list_is_of_another_namespace(
    source: DeviceSource,
) -> None:
    torch.zeros(1, device="cuda")
    card = last(collect(source, 2.3))
    if not card.processes:
        pytest.skip("this container does not list processes")
    assert any(p.pid == os.getpid() and p.ours for p in card.processes) or not any(
        p.local for p in card.processes
    )


def test_a_load_shows_in_utilization_power_activity_and_energy(source: DeviceSource) -> None:
    source.show_activity(True)
    idle = last(collect(source, 3.0))
    samples = collect(source, 5.0, matmul())
    busy = last(samples)
    source.show_activity(False)
    assert value(busy, "utilization") > 90
    assert value(busy, "power") > 1.5 * value(idle, "power")
    activity = busy.metrics["tensor_activity"]
    if activity.value is not None:  # Hopper and later
        assert activity.value > 40
        assert value(busy, "sm_activity") > 80
        assert value(idle, "tensor_activity") < 5
    counted = [
        (sample.t, sample.cards[0].metrics["energy"].value)
        for sample in samples
        if "energy" in sample.cards[0].metrics
    ]
    (t1, e1), (t2, e2) = counted[-2:]
    assert e1 is not None
    assert e2 is not None
    watts = (e2 - e1) / ((t2 - t1) / 1e9)
    assert watts == pytest.approx(value(busy, "power"), rel=0.35)


def test_polls_stay_cheap(source: DeviceSource) -> None:
    costs = sorted(sample.cost_ms or 0.0 for sample in collect(source, 4.0))
    assert costs[len(costs) // 2] < 25  # a tenth of the interval
