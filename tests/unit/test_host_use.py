"""What a process takes of the host, by processes that are really there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from llmprof.core.devices import card_processes
from llmprof.core.devices.card_processes import identify
from llmprof.core.devices.host_use import HostUseReader
from tests.unit.fake_binding import GIB, FakeNvml, cards_of


def spend(seconds: float) -> None:
    """Use the processor for so long."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_share_needs_two_readings_and_is_of_one_core() -> None:
    now = [10.0]
    reader = HostUseReader(lambda: now[0])
    first = reader.read([os.getpid()])[os.getpid()]
    assert first.cpu_percent is None
    assert first.rss_bytes is not None
    assert first.rss_bytes > 1e6
    assert first.running_s is not None
    spend(0.3)
    now[0] += 1.0
    second = reader.read([os.getpid()])[os.getpid()]
    assert second.cpu_percent is not None
    assert second.cpu_percent >= 25.0  # clock ticks of 10 ms
    assert second.running_s is not None
    assert second.running_s >= first.running_s


def test_who_has_ended_is_left_out_and_followed_anew() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    reader = HostUseReader()
    assert set(reader.read([child.pid, os.getpid()])) == {child.pid, os.getpid()}
    child.kill()
    child.wait()
    assert set(reader.read([child.pid, os.getpid()])) == {os.getpid()}
    assert reader.read([]) == {}
    assert reader.read([os.getpid()])[os.getpid()].cpu_percent is None


@pytest.mark.parametrize("here", [True, False])
def test_processes_on_a_card_say_what_they_take_of_the_host(
    here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card_processes, "shares_namespace", lambda: here)
    fake = FakeNvml()
    listed = SimpleNamespace(pid=os.getpid(), usedGpuMemory=GIB)
    fake.set("nvmlDeviceGetComputeRunningProcesses_v3", [listed])
    card = cards_of(fake, who=identify).read().cards[0]
    assert card.processes is not None
    (process,) = card.processes
    if here:
        assert process.rss_bytes is not None
        assert abs(process.rss_bytes - psutil.Process().memory_info().rss) < 2**28
    else:  # the number says nothing of this machine's processes
        assert process.rss_bytes is process.cpu_percent is process.running_s is None
