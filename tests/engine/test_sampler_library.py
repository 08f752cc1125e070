"""The real binding over a small C library: what a fake of the binding cannot catch."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.engine.nvml_library import build, environment, run_script

POLL = """
import json, os
from llmprof.core import events as ev
from llmprof.core.events.merge import merge
from llmprof.core.devices import card_processes
from llmprof.core.devices.nvml import open_source
card_processes.shares_namespace = lambda: True  # also where the tests run in a container
source = open_source(owner=os.getpid(), wait_s=20)
sample = source.poll()
for _ in range({polls}):
    source.catch_up()
    sample = merge(sample, source.poll())
source.close()
source.close()
print(ev.encode(sample).decode())
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="module")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("old-nvml"), old=True)


def poll(folder: Path, kind: str, polls: int = 2, **more: object) -> Any:
    return json.loads(run_script(POLL.format(polls=polls), environment(folder, kind, **more)))


def values(card: Any) -> dict[str, float | None]:
    return {name: metric[0] for name, metric in card["metrics"].items()}


def test_a_whole_driver(library: Path) -> None:
    first, second = poll(library, "ok")["cards"]
    assert first["name"] == "Fake A�"  # not UTF-8: the binding by itself fails on it
    assert second["name"] == "Fake B[31m"
    assert first["pci_bus_id"] == "00000000:1A:00.0"
    got = values(first)
    assert got["memory_used"] == 2 * 2**30
    assert got["temperature"] == 61
    assert got["power"] == 250
    assert got["pcie_tx"] == 100 * 1024
    assert first["throttle"] == ["software thermal"]
    assert first["processes"][0]["ours"]
    assert first["processes"][0]["sm_percent"] == 21
    assert values(second)["utilization"] == 41


def test_a_driver_without_the_newer_functions(old_library: Path) -> None:
    card = poll(old_library, "missing_symbol")["cards"][0]
    got = values(card)
    assert got["memory_used"] == 3 * 2**30
    assert got["temperature"] == 60
    assert card["throttle"] == ["power cap"]
    assert card["processes"][0]["memory_bytes"] == 2**30
    assert card["metrics"]["fan"] == [None, "this driver is too old for it"]


def test_a_card_lost_in_mid_run(library: Path) -> None:
    first, second = poll(library, "lost", polls=8)["cards"]
    assert first["state"] == "lost"
    assert set(values(first).values()) == {None}
    assert first["metrics"]["power"][1] == "the card fell off the bus"
    assert second.get("state", "ok") == "ok"
    assert values(second)["power"] == 250


def test_a_slow_call_is_paid_for_and_made_rare(library: Path) -> None:
    sample = poll(library, "slow", polls=3, ms=2000)
    assert sample["cost_ms"] < 2000  # the last poll no longer makes the call
    assert values(sample["cards"][0])["power"] == 250


def test_garbage_process_sizes(library: Path) -> None:
    card = poll(library, "garbage")["cards"][0]
    found = {p["pid"]: p.get("memory_bytes") for p in card["processes"]}
    assert found == {None: None, os.getpid(): None, 1: None}
    assert card["metrics"]["other_memory"][0] is None


def test_success_with_zero_rows_is_idle(library: Path) -> None:
    card = poll(library, "idle")["cards"][0]
    assert card["processes"][0]["sm_percent"] == 0
    assert card["metrics"]["other_utilization"][0] == 0


def test_a_version_mismatch_shows_both_versions(library: Path) -> None:
    sample = poll(library, "mismatch")
    assert not sample.get("cards")
    assert "library 12.535.54.03" in sample["cards_reason"]
    assert "kernel module" in sample["cards_reason"]
    assert sample["host"]["memory_total_bytes"] > 0


CHAOS = """
import math, sys
from llmprof.core.devices.metrics import METRICS
from llmprof.core.devices.nvml import open_source
from llmprof.core.devices.nvml import NvmlCards
import time
now = time.monotonic_ns()
def clock():
    global now
    now += 1000
    return now
cards = NvmlCards(wait_s=20, clock=clock)
seen = set()
for _ in range(400):
    now += 250_000_000
    read = cards.read()
    for card in read.cards:
        for name, metric in card.metrics.items():
            assert name in METRICS, name
            assert (metric.value is None) == bool(metric.reason), (name, metric)
            assert metric.value is None or math.isfinite(metric.value), name
            if name not in ("pcie_tx", "other_processes", "other_utilization", "other_memory",
                            "energy_estimated"):
                assert metric.value != 0, name
        seen.add((card.index, card.state))
    cards.catch_up()
cards.close()
print(sorted({index for index, _ in seen}), len(seen))
"""


@pytest.mark.parametrize("seed", range(4))
def test_random_errors_and_delays_never_end_it_or_show_an_unknown_as_zero(
    library: Path, seed: int
) -> None:
    said = run_script(CHAOS, environment(library, "chaos", seed=seed))
    assert said.startswith("[0, 1]"), said


FLAT = """
import gc, os, resource
from pathlib import Path
import time
from llmprof.core.devices.nvml import NvmlCards
now = time.monotonic_ns()
def clock():
    global now
    now += 1000
    return now
def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def files():
    return len(os.listdir("/proc/self/fd"))
cards = NvmlCards(wait_s=20, clock=clock)
def polls(n):
    global now
    for _ in range(n):
        now += 250_000_000
        cards.read()
        cards.catch_up()
    gc.collect()
    return files(), rss()
before = polls(200)
after = polls(1000)
assert after[0] == before[0], (before, after)
print(after[1] - before[1])
"""


@pytest.mark.parametrize("kind", ["ok", "lost", "mismatch"])
def test_a_thousand_polls_leave_files_and_memory_flat(library: Path, kind: str) -> None:
    assert int(run_script(FLAT, environment(library, kind))) < 300_000
