"""Edge cases that people reported of NVML, against a table-driven fake of the binding."""

from __future__ import annotations

import math
import os
import random
from types import SimpleNamespace
from typing import Any

import pytest

from llmprof.core.devices.card_processes import Identity
from llmprof.core.devices.metrics import METRICS
from llmprof.core.devices.nvml import NvmlCards
from llmprof.core.events import CardSample, Metric, throttle
from llmprof.core.events.merge import merge_card
from llmprof.core.monitor import words
from tests.unit.fake_binding import GIB, MISMATCH, Clock, FakeNvml, cards_of, error


def first(fake: FakeNvml, **more: Any) -> CardSample:
    return cards_of(fake, **more).read().cards[0]


def poll(cards: NvmlCards, clock: Clock, seconds: float, step_s: float = 0.25) -> list[CardSample]:
    """Samples of the first card over a time."""
    samples = []
    for _ in range(round(seconds / step_s)):
        clock.advance(step_s)
        samples.append(cards.read().cards[0])
        cards.catch_up()
    return samples


def test_every_metric_of_a_datacenter_card() -> None:
    clock = Clock()
    cards = cards_of(FakeNvml(), clock)
    card = cards.read().cards[0]
    cards.catch_up()
    clock.advance(0.25)
    card = merge_card(card, cards.read().cards[0])
    values = {name: metric.value for name, metric in card.metrics.items()}
    assert values == {
        "utilization": 37,
        "memory_utilization": 12,
        "utilization_window": 166.0,
        "power": 350.5,
        "power_limit": 700,
        "sm_clock": 1755,
        "sm_clock_max": 1980,
        "memory_clock": 2619,
        "memory_clock_max": 2619,
        "memory_used": 10 * GIB,
        "memory_total": 80 * GIB,
        "temperature": 54,
        "temperature_slowdown": 92,
        "energy": pytest.approx(12345.678),
        "throttle": 4,
        "ecc_errors": 0,
        "fan": None,
        "pcie_tx": 1000 * 1024,
        "pcie_rx": 1001 * 1024,
        "other_processes": 1,
        "other_utilization": 33,
        "other_memory": 2 * GIB,
    }
    assert card.name == "NVIDIA H100 80GB HBM3"
    assert card.pci_bus_id == "00000000:10:00.0"
    assert card.throttle == ("power cap",)


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (12, "libnvidia-ml.so.1"),
        (9, "kernel module is not loaded"),
        (18, "library 13.580.1"),
        (4, "/dev/nvidiactl"),
        (999, "NVML did not start"),
    ],
)
def test_a_library_that_does_not_start_says_which_part_is_missing(code: int, says: str) -> None:
    cards = cards_of(FakeNvml().set("nvmlInit", error(code)))
    read = cards.read()
    assert read.cards == ()
    assert says in (read.reason or "")
    cards.close()  # a shutdown after a failed start must not raise
    cards.close()


def test_a_missing_binding_says_how_to_get_it() -> None:
    def load() -> Any:
        raise ImportError("no pynvml")

    cards = NvmlCards(load=load, wait_s=10)
    assert "pip install nvidia-ml-py" in (cards.read().reason or "")


def test_a_failed_start_is_tried_again_but_slowly() -> None:
    clock, fake = Clock(), FakeNvml().set("nvmlInit", error(18))
    cards = cards_of(fake, clock)
    for _ in range(20):
        clock.advance(1)
        cards.read()
    assert fake.calls["nvmlInit"] == 1
    fake.set("nvmlInit", None)
    clock.advance(60)
    cards.read()
    while cards.read().reason is not None:
        pass
    assert fake.calls["nvmlInit"] == 2


def test_no_cards_at_all() -> None:
    read = cards_of(FakeNvml(0)).read()
    assert read.cards == ()
    assert "sees no GPU" in (read.reason or "")


READINGS = {
    "nvmlDeviceGetUtilizationRates": ("utilization", "memory_utilization"),
    "nvmlDeviceGetPowerUsage": ("power",),
    "nvmlDeviceGetClockInfo": ("sm_clock", "memory_clock"),
    "nvmlDeviceGetCurrentClocksEventReasons": ("throttle",),
    "nvmlDeviceGetMemoryInfo": ("memory_used", "memory_total"),
    "nvmlDeviceGetTemperatureThreshold": ("temperature_slowdown",),
    "nvmlDeviceGetTotalEnergyConsumption": ("energy",),
    "nvmlDeviceGetEnforcedPowerLimit": ("power_limit",),
    "nvmlDeviceGetMaxClockInfo": ("sm_clock_max", "memory_clock_max"),
    "nvmlDeviceGetFanSpeed": ("fan",),
    "nvmlDeviceGetTotalEccErrors": ("ecc_errors",),
}


@pytest.mark.parametrize("function", READINGS)
@pytest.mark.parametrize("failure", [error(3), error(4), error(999), MISMATCH, OSError("x")])
def test_one_metric_that_fails_is_unknown_with_its_reason(
    function: str, failure: Exception
) -> None:
    card = first(FakeNvml().set(function, failure))
    for name, metric in card.metrics.items():
        if name in READINGS[function]:
            assert metric.value is None
            assert metric.reason
        elif name not in ("fan",):
            assert metric.value is not None, name
    assert card.state == "ok"


def test_older_drivers_answer_through_older_functions() -> None:
    fake = FakeNvml()
    fake.set("nvmlDeviceGetTemperatureV", error(13))
    fake.missing = {"nvmlDeviceGetCurrentClocksEventReasons"}
    fake.set("nvmlDeviceGetCurrentClocksThrottleReasons", 0x40)
    rows = [SimpleNamespace(pid=7, usedGpuMemory=GIB)]
    fake.set("nvmlDeviceGetComputeRunningProcesses_v3", error(13))
    fake.set("nvmlDeviceGetComputeRunningProcesses_v2", MISMATCH)
    fake.set("nvmlDeviceGetComputeRunningProcesses", rows)
    card = first(fake)
    assert card.metrics["temperature"].value == 53
    assert card.throttle == ("hardware thermal",)
    assert card.processes is not None
    assert [process.pid for process in card.processes] == [7]


def test_memory_v1_is_only_the_fallback() -> None:
    def old_only(_handle: object, version: object = None) -> SimpleNamespace:
        if version:
            raise MISMATCH
        return SimpleNamespace(total=80 * GIB, used=11 * GIB)

    assert first(FakeNvml()).metrics["memory_used"].value == 10 * GIB
    fake = FakeNvml().set("nvmlDeviceGetMemoryInfo", old_only)
    assert first(fake).metrics["memory_used"].value == 11 * GIB


@pytest.mark.parametrize("garbage", [2**32 - 1, -5, 2**64 - 1, None, "12", float("nan"), True])
def test_garbage_is_unknown_and_never_shown(garbage: object) -> None:
    card = first(FakeNvml().set("nvmlDeviceGetPowerUsage", garbage))
    assert card.metrics["power"].value is None
    assert card.metrics["power"].reason


def test_a_lost_card_stays_as_a_row_and_the_others_go_on() -> None:
    clock, fake = Clock(), FakeNvml(2)
    cards = cards_of(fake, clock)
    cards.read()
    fake.lose(0)
    clock.advance(1)
    gone, other = cards.read().cards
    assert gone.state == "lost"
    assert {metric.value for metric in gone.metrics.values()} == {None}
    assert gone.metrics["power"].reason == "the card fell off the bus"
    assert other.state == "ok"
    assert other.metrics["power"].value == 350.5
    before = fake.calls["nvmlDeviceGetPowerUsage"]
    clock.advance(1)
    cards.read()
    assert fake.calls["nvmlDeviceGetPowerUsage"] == before + 1  # the dead handle is not used


def test_a_lost_card_that_returns_is_read_again() -> None:
    clock, fake = Clock(), FakeNvml()
    cards = cards_of(fake, clock)
    cards.read()
    fake.set("nvmlDeviceGetPowerUsage", error(15))
    fake.set("nvmlDeviceGetHandleByUUID", error(28))
    poll(cards, clock, 20)
    assert cards.read().cards[0].state == "lost"
    fake.set("nvmlDeviceGetPowerUsage", 100_000).set("nvmlDeviceGetHandleByUUID", "card0")
    back = poll(cards, clock, 6)
    assert back[-1].state == "ok"
    assert 100.0 in {card.metrics["power"].value for card in back if "power" in card.metrics}
    assert any(card.name for card in back)


def test_a_container_that_loses_its_cards_shows_them_stale() -> None:
    clock, fake = Clock(), FakeNvml()
    cards = cards_of(fake, clock)
    cards.read()
    for name in (*READINGS, "nvmlDeviceGetTemperatureV", "nvmlDeviceGetComputeRunningProcesses_v3"):
        fake.set(name, error(999))
    assert {card.state for card in poll(cards, clock, 4)} == {"stale"}
    fake.set("nvmlDeviceGetPowerUsage", 1000)
    assert poll(cards, clock, 90)[-1].state == "ok"


def test_a_card_that_cannot_be_opened_is_a_row_too() -> None:
    def by_index(index: int) -> str:
        if index == 0:
            raise error(15)
        return f"card{index}"

    broken, fine = cards_of(FakeNvml(2).set("nvmlDeviceGetHandleByIndex", by_index)).read().cards
    assert (broken.state, fine.state) == ("lost", "ok")
    assert broken.metrics["power"] == Metric(None, "the card fell off the bus")


def test_a_card_of_another_user_is_not_yours_and_not_lost() -> None:
    def handle(index: int) -> str:
        if index == 0:
            raise error(4)
        return f"card{index}"

    fake = FakeNvml(2).set("nvmlDeviceGetHandleByIndex", handle)
    theirs, ours = cards_of(fake).read().cards
    assert (theirs.denied, ours.denied) == (True, False)
    assert words.state(theirs) == "NOT YOURS"
    assert words.state(ours) == ""
    assert theirs.metrics["power"].value is None
    assert theirs.metrics["power"].reason == (
        "the driver refuses this user access to the card: it is another's"
    )


def test_a_card_that_is_given_to_this_user_is_read() -> None:
    clock, fake = Clock(), FakeNvml()
    fake.set("nvmlDeviceGetHandleByIndex", error(4))
    cards = cards_of(fake, clock)
    assert cards.read().cards[0].denied
    fake.set("nvmlDeviceGetHandleByIndex", "card0")
    given = poll(cards, clock, 6)[-1]
    assert (given.state, given.denied) == ("ok", False)


@pytest.mark.parametrize("answer", [error(0), error(6), []])
def test_process_utilization_without_rows_means_idle(answer: object) -> None:
    card = first(FakeNvml().set("nvmlDeviceGetProcessUtilization", answer))
    assert card.processes is not None
    assert card.processes[0].sm_percent == 0
    assert card.metrics["other_utilization"].value == 0


def test_process_utilization_that_is_not_supported_is_unknown() -> None:
    card = first(FakeNvml().set("nvmlDeviceGetProcessUtilization", error(3)))
    assert card.processes is not None
    assert card.processes[0].sm_percent is None
    assert card.metrics["other_utilization"].value is None


@pytest.mark.parametrize("size", [None, 2**64 - 1, 90 * GIB, -1])
def test_an_impossible_process_size_is_unknown(size: object) -> None:
    rows = [SimpleNamespace(pid=11, usedGpuMemory=size), SimpleNamespace(pid=12, usedGpuMemory=GIB)]
    card = first(FakeNvml().set("nvmlDeviceGetComputeRunningProcesses_v3", rows))
    assert card.processes is not None
    assert {p.pid: p.memory_bytes for p in card.processes} == {11: None, 12: GIB}
    assert card.metrics["other_memory"].value is None
    assert card.metrics["other_processes"].value == 2


@pytest.mark.parametrize("pid", [0, -3, 2**32 - 1, None])
def test_an_impossible_pid_is_kept_without_one(pid: object) -> None:
    rows = [SimpleNamespace(pid=pid, usedGpuMemory=GIB)]
    card = first(FakeNvml().set("nvmlDeviceGetComputeRunningProcesses_v3", rows))
    assert card.processes is not None
    assert [(p.pid, p.memory_bytes, p.command) for p in card.processes] == [(None, GIB, None)]


def test_a_process_in_two_lists_is_one_process() -> None:
    rows = [SimpleNamespace(pid=4242, usedGpuMemory=2 * GIB)]
    card = first(FakeNvml().set("nvmlDeviceGetGraphicsRunningProcesses_v3", rows))
    assert card.processes is not None
    assert len(card.processes) == 1


def test_a_pid_of_another_namespace_has_unknown_fields() -> None:
    fake = FakeNvml().set("nvmlSystemGetProcessName", b"/usr/bin/trainer\x1b[31m")
    processes = first(fake).processes
    assert processes is not None
    assert not processes[0].local
    assert processes[0].user is None
    assert processes[0].command == "/usr/bin/trainer[31m"


def test_processes_of_ours_are_told_from_others() -> None:
    def who(pid: int, owner: int | None) -> Identity:
        return Identity("ada", f"job {pid}", ours=pid == owner, local=True)

    rows = [SimpleNamespace(pid=pid, usedGpuMemory=pid * GIB) for pid in (5, 6)]
    fake = FakeNvml().set("nvmlDeviceGetComputeRunningProcesses_v3", rows)
    card = first(fake, who=who, owner=5)
    assert card.processes is not None
    assert [(p.pid, p.ours) for p in card.processes] == [(6, False), (5, True)]
    assert card.metrics["other_processes"].value == 1
    assert card.metrics["other_memory"].value == 6 * GIB


def test_a_process_that_ended_while_it_was_looked_up_is_no_tenant() -> None:
    def who(pid: int, owner: int | None) -> Identity:
        return Identity(gone=pid == 4242) if pid != 7 else Identity("ada", "x", local=True)

    rows = [SimpleNamespace(pid=pid, usedGpuMemory=GIB) for pid in (4242, 7)]
    fake = FakeNvml().set("nvmlDeviceGetComputeRunningProcesses_v3", rows)
    card = first(fake, who=who)
    assert card.processes is not None
    assert [p.pid for p in card.processes] == [7]
    assert card.metrics["other_processes"].value == 1


def test_a_pid_of_another_namespace_counts_from_its_second_reading_on() -> None:
    clock, fake = Clock(), FakeNvml().set("nvmlDeviceGetComputeRunningProcesses_v3", [])
    cards = cards_of(fake, clock)
    cards.read()
    rows = [SimpleNamespace(pid=99, usedGpuMemory=GIB)]
    fake.set("nvmlDeviceGetComputeRunningProcesses_v3", rows)
    lists = [card.processes for card in poll(cards, clock, 5) if card.processes is not None]
    assert [len(processes) for processes in lists] == [0, 1]


@pytest.mark.parametrize(
    ("name", "unified"), [("NVIDIA GB10", True), ("NVIDIA A16-4Q", False), ("Thor", True)]
)
def test_unified_memory_is_never_taken_for_a_discrete_card(name: str, unified: bool) -> None:
    fake = FakeNvml().set("nvmlDeviceGetMemoryInfo", error(3)).set("nvmlDeviceGetName", name)
    clock = Clock()
    cards = cards_of(fake, clock)
    card = cards.read().cards[0]
    for sample in poll(cards, clock, 130, 1.0):
        card = merge_card(card, sample)
    assert card.unified is unified
    assert card.metrics["memory_used"].value == (2 * GIB if unified else None)
    assert (card.metrics["memory_total"].value is not None) is unified


def test_a_card_with_memory_of_its_own_is_not_unified_whatever_its_name() -> None:
    assert not first(FakeNvml().set("nvmlDeviceGetName", "NVIDIA GB10")).unified


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"NVIDIA A100\xff", "NVIDIA A100�"),
        ("NVIDIA \x1b[31mT4\n", "NVIDIA [31mT4"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), ""),
    ],
)
def test_names_are_bytes_or_text_and_cleaned(raw: object, shown: str) -> None:
    card = first(FakeNvml().set("nvmlDeviceGetName", raw))
    assert card.name == shown
    assert card.metrics["power"].value == 350.5


def test_bits_that_do_not_slow_the_card_are_shown_and_not_alarmed() -> None:
    card = first(FakeNvml().set("nvmlDeviceGetCurrentClocksEventReasons", 0x103))
    assert card.throttle == ("idle", "application clocks", "display clocks")
    assert not any(map(throttle.is_harmful, card.throttle))
    assert throttle.harmful(0x1 | 0x4 | 0x40) == ("power cap", "hardware thermal")
    assert throttle.names(1 << 20) == ("bit 20",)
    assert not throttle.is_harmful("bit 20")


def test_mig_slices_are_listed_and_shared_figures_unknown() -> None:
    fake = FakeNvml()
    fake.set("nvmlDeviceGetMigMode", [1, 1]).set("nvmlDeviceGetMaxMigDeviceCount", 7)
    fake.set("nvmlDeviceGetMigDeviceHandleByIndex", lambda _h, at: _slice(at))
    fake.set("nvmlDeviceGetUtilizationRates", error(3))
    fake.set("nvmlDeviceGetUUID", lambda handle: f"MIG-{handle}" if handle[0] == "m" else "GPU-1")
    card = first(fake)
    assert [part.uuid for part in card.mig] == ["MIG-mig0", "MIG-mig1"]
    assert card.metrics["utilization"].value is None


def _slice(at: int) -> str:
    if at > 1:
        raise error(6)
    return f"mig{at}"


def test_handles_are_made_anew_after_a_fork() -> None:
    fake = FakeNvml()
    cards = cards_of(fake)
    assert fake.calls["nvmlInit"] == 1
    cards._pid = os.getpid() + 1  # as the child of a fork sees it
    cards.read()
    while cards.read().reason is not None:
        pass
    assert fake.calls["nvmlInit"] == 2


def test_one_initialisation_for_a_thousand_polls_and_dear_calls_stay_rare() -> None:
    clock, fake = Clock(), FakeNvml()
    cards = cards_of(fake, clock)
    poll(cards, clock, 250)
    assert fake.calls["nvmlInit"] == 1
    assert fake.calls["nvmlDeviceGetPowerUsage"] == 1000
    assert 240 <= fake.calls["nvmlDeviceGetMemoryInfo"] <= 252
    assert 120 <= fake.calls["nvmlDeviceGetTotalEnergyConsumption"] <= 127
    assert fake.calls["nvmlDeviceGetPcieThroughput"] <= 2 * 33
    assert fake.calls["nvmlDeviceGetFanSpeed"] <= 5  # not supported: hardly asked again


def test_a_reading_that_proves_dear_is_made_less_often() -> None:
    clock, fake = Clock(), FakeNvml()
    fake.before = lambda name: clock.advance(0.05 if name == "nvmlDeviceGetPowerUsage" else 0)
    cards = cards_of(fake, clock)
    poll(cards, clock, 30)
    assert fake.calls["nvmlDeviceGetPowerUsage"] <= 14  # 50 ms may take 2 % of the time


def test_cards_take_turns_with_what_is_dear() -> None:
    clock, fake = Clock(), FakeNvml(8)
    fake.before = lambda name: clock.advance(0.02 if name == "nvmlDeviceGetPcieThroughput" else 0)
    cards = cards_of(fake, clock)
    seen: set[int] = set()
    for _ in range(16):
        clock.advance(0.25)
        seen |= {card.index for card in cards.read().cards if "pcie_rx" in card.metrics}
        before = clock.now
        cards.catch_up()
        assert clock.now - before <= 0.05e9
    assert seen == set(range(8))


def test_activity_is_read_only_while_it_is_shown() -> None:
    clock, fake = Clock(), FakeNvml()
    cards = cards_of(fake, clock)
    poll(cards, clock, 2)
    assert fake.calls["nvmlGpmSampleGet"] == 0
    cards.show_activity(True)
    shown = poll(cards, clock, 3)
    values = [
        card.metrics["tensor_activity"].value for card in shown if "sm_activity" in card.metrics
    ]
    assert values == [15.0, 15.0]
    cards.show_activity(False)
    poll(cards, clock, 1)
    assert fake.calls["nvmlGpmSampleFree"] == fake.calls["nvmlGpmSampleAlloc"] == 2


def test_activity_of_an_older_card_is_unknown_with_the_reason() -> None:
    fake = FakeNvml().set("nvmlGpmQueryDeviceSupport", SimpleNamespace(isSupportedDevice=0))
    clock = Clock()
    cards = cards_of(fake, clock)
    cards.show_activity(True)
    card = cards.read().cards[0]
    assert "Hopper" in (card.metrics["sm_activity"].reason or "")
    poll(cards, clock, 5)
    assert fake.calls["nvmlGpmQueryDeviceSupport"] == 1


def test_cards_that_are_asked_for() -> None:
    from llmprof.core.events.matching import Selection

    read = cards_of(FakeNvml(3), selection=Selection.parse("2,0")).read()
    assert [card.index for card in read.cards] == [0, 2]


@pytest.mark.parametrize(
    ("asked", "count", "absent", "reason"),
    [
        ("1,7", 3, ("7",), "no GPU 7 here; there are 0, 1, 2"),
        ("5", 1, ("5",), "no GPU 5 here; there is 0"),
        (
            "0,GPU-ab",
            1,
            ("GPU-ab",),
            "no GPU GPU-ab here; there is 0 (GPU-00000000-0000-0000-0000-000000000000)",
        ),
        ("0", 0, ("0",), "the NVIDIA driver works but sees no GPU"),
    ],
)
def test_where_a_card_asked_for_is_not_there_none_is_read(
    asked: str, count: int, absent: tuple[str, ...], reason: str
) -> None:
    from llmprof.core.events.matching import Selection

    fake = FakeNvml(count)
    read = cards_of(fake, selection=Selection.parse(asked)).read()
    assert (read.cards, read.absent, read.reason) == ((), absent, reason)
    assert fake.calls["nvmlDeviceGetPowerUsage"] == 0
    assert fake.calls["nvmlShutdown"] == 1


CODES = (1, 2, 3, 4, 6, 7, 10, 12, 13, 15, 16, 17, 20, 21, 25, 26, 27, 28, 999, 4711)
GARBAGE: tuple[object, ...] = (None, -1, 2**64 - 1, float("nan"), "x", b"\xff", [], ())
FUNCTIONS = (*READINGS, "nvmlDeviceGetTemperatureV", "nvmlDeviceGetPcieThroughput",
             "nvmlDeviceGetSamples", "nvmlDeviceGetComputeRunningProcesses_v3",
             "nvmlDeviceGetProcessUtilization", "nvmlGpmSampleGet", "nvmlGpmMetricsGet",
             "nvmlDeviceGetUUID", "nvmlDeviceGetPciInfo", "nvmlDeviceGetMigMode")  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_random_failures_and_delays_of_one_card_never_reach_the_other(seed: int) -> None:
    chance = random.Random(seed)
    clock, fake = Clock(), FakeNvml(2)
    usual = {name: fake._answers[name, None] for name in FUNCTIONS}
    fake.before = lambda _: clock.advance(chance.choice((0.0, 0.0, 0.0, 0.002, 0.4)))
    cards = cards_of(fake, clock)
    cards.show_activity(True)
    last = {1: cards.read().cards[1]}
    for _ in range(150):
        clock.advance(0.25)
        name = chance.choice(FUNCTIONS)
        bad = chance.choice((error(chance.choice(CODES)), MISMATCH, chance.choice(GARBAGE)))
        fake.set(name, chance.choice((bad, usual[name])), card=0)
        sick, well = cards.read().cards
        for metric_name, metric in sick.metrics.items():
            assert metric_name in METRICS
            assert (metric.value is None) is bool(metric.reason), (metric_name, metric)
            assert metric.value is None or math.isfinite(metric.value)
            assert metric.value != 0 or metric_name in MAY_BE_ZERO, (name, metric_name)
        assert well.state == "ok"
        last[1] = merge_card(last[1], well)
        cards.catch_up()
    values = {name: metric.value for name, metric in last[1].metrics.items()}
    assert values["power"] == 350.5
    assert values["memory_used"] == 10 * GIB
    assert values["sm_activity"] == 12
    cards.close()


MAY_BE_ZERO = {"ecc_errors", "other_processes", "other_utilization", "other_memory",
               "energy_estimated"}  # fmt: skip
