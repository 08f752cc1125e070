"""Who a process is: by the operating system, never by its number alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import psutil
import pytest

from llmprof.core.devices import card_processes
from llmprof.core.devices.card_processes import Identity, ProcessReader, count_holders, identify
from tests.unit.fake_binding import GIB, FakeNvml, cards_of
from tests.waiting import wait_for


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_processes, "shares_namespace", lambda: True)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card_processes, "shares_namespace", lambda: False)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()", "a\x1b[0mb"])
    wait_for(lambda: len(psutil.Process(process.pid).cmdline()) == 4, "its own command line")
    yield process
    process.kill()
    process.wait()


@pytest.mark.usefixtures("here")
def test_user_command_and_ancestry(child: subprocess.Popen[bytes]) -> None:
    who = identify(child.pid, os.getpid())
    assert who.local
    assert who.ours
    assert who.user == psutil.Process().username()
    assert who.command is not None
    assert who.command.endswith("a[0mb")
    assert not identify(child.pid, None).ours
    assert not identify(os.getppid(), os.getpid()).ours
    assert identify(os.getpid(), os.getpid()).ours


@pytest.mark.usefixtures("here")
def test_a_zombie_still_belongs_to_its_parent() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    wait_for(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
    assert identify(process.pid, os.getpid()).ours
    process.wait()
    assert identify(process.pid, os.getpid()) == Identity(gone=True)


@pytest.mark.usefixtures("elsewhere")
def test_in_another_namespace_a_number_proves_nothing(child: subprocess.Popen[bytes]) -> None:
    assert identify(child.pid, os.getpid()) == Identity()  # it has no card open
    assert identify(2**22 - 1, os.getpid()) == Identity()


@pytest.mark.usefixtures("elsewhere")
def test_in_another_namespace_an_open_card_proves_it(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card_processes, "holds_card", lambda pid: pid == child.pid)
    assert identify(child.pid, os.getpid()).ours
    assert count_holders(os.getpid()) == 1
    assert count_holders(2**22 - 1) == 0


def test_what_holds_a_card_is_seen_by_its_open_files() -> None:
    assert not card_processes.holds_card(os.getpid())
    assert not card_processes.holds_card(2**22 - 1)


@pytest.mark.parametrize(
    ("holders", "seen_before", "mine"),
    [(0, (), set()), (1, (), {13}), (1, (13,), {12}), (2, (), {12, 13}), (9, (), {11, 12, 13})],
)
def test_pids_of_another_namespace_are_ours_only_as_many_as_ours_hold_the_card(
    holders: int, seen_before: tuple[int, ...], mine: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = ProcessReader(1, lambda pid, owner: Identity())
    monkeypatch.setattr(card_processes, "count_holders", lambda owner: 0)
    reader._claim(dict.fromkeys(seen_before, Identity()))  # there before ours were
    monkeypatch.setattr(card_processes, "count_holders", lambda owner: holders)
    claimed = reader._claim(dict.fromkeys((11, 12, 13), Identity()))
    assert {pid for pid, who in claimed.items() if who.ours} == mine


def test_a_share_that_is_not_told_is_unknown() -> None:
    fake = FakeNvml()
    listed = SimpleNamespace(pid=4321, usedGpuMemory=GIB)
    fake.set("nvmlDeviceGetComputeRunningProcesses_v3", [listed])
    fake.set(
        "nvmlDeviceGetProcessUtilization",
        [SimpleNamespace(pid=4321, timeStamp=5, smUtil=2**32 - 1)],
    )
    card = cards_of(fake).read().cards[0]
    assert card.processes is not None
    assert {process.sm_percent for process in card.processes} == {None}
    assert card.metrics["other_utilization"].value is None
