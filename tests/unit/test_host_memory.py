"""Whose process the kernel killed for memory: cgroups of both versions, the machine's count."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from llmprof.core.engine.endings import failure_of
from llmprof.core.system import cgroups, host_memory
from llmprof.core.system.host_memory import OomKills, oom_kills

V2 = "0::/user.slice/session\n"
V1 = "5:devices:/\n4:memory:/box/7\n0::/\n"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel's files, to be written by the test."""
    monkeypatch.setattr(cgroups, "ROOT", tmp_path / "cgroup")
    monkeypatch.setattr(cgroups, "OWN", tmp_path / "own")
    monkeypatch.setattr(host_memory, "_VMSTAT", tmp_path / "vmstat")
    (tmp_path / "vmstat").write_text("nr_free_pages 1\noom_kill 12\n")
    return tmp_path


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_own_cgroup_counts_and_not_its_parent(kernel: Path) -> None:
    put(kernel / "own", V2)
    put(kernel / "cgroup/cgroup.controllers", "memory")
    put(kernel / "cgroup/user.slice/memory.events", "oom 9\noom_kill 9\n")
    put(kernel / "cgroup/user.slice/session/memory.events", "oom 4\noom_kill 3\n")
    assert oom_kills() == OomKills(cgroup=3, machine=12)


def test_version_1_and_a_container_that_sees_its_cgroup_as_the_root(kernel: Path) -> None:
    put(kernel / "own", V1)
    put(kernel / "cgroup/memory/memory.oom_control", "under_oom 0\noom_kill 5\n")
    assert oom_kills().cgroup == 5
    put(kernel / "cgroup/memory/box/7/memory.oom_control", "under_oom 0\noom_kill 2\n")
    assert oom_kills().cgroup == 2


def test_a_kernel_that_says_nothing_is_unknown(kernel: Path) -> None:
    assert oom_kills() == OomKills(cgroup=None, machine=12)
    (kernel / "vmstat").unlink()
    assert oom_kills() == OomKills(cgroup=None, machine=None)


@pytest.mark.parametrize(
    ("before", "after", "where"),
    [
        (OomKills(1, 5), OomKills(2, 6), "cgroup"),
        (OomKills(1, 5), OomKills(1, 6), None),  # another's process
        (OomKills(None, 5), OomKills(None, 6), "machine"),
        (OomKills(None, 5), OomKills(None, 5), None),
        (OomKills(None, None), OomKills(None, None), None),
    ],
)
def test_a_kill_elsewhere_is_not_ours(before: OomKills, after: OomKills, where: str | None) -> None:
    assert after.since(before) == where


def ended(code: int, **how: object) -> tuple[str, str]:
    usual = {"silence_s": None, "stopped": False, "out_of_memory": None, "log": "log.txt"}
    failure = failure_of(code, **(usual | how))  # type: ignore[arg-type]
    assert failure.exit_code == code
    return failure.kind, failure.message


def test_a_sigkill_is_out_of_memory_as_far_as_the_kernel_says_so() -> None:
    kind, message = ended(-signal.SIGKILL, out_of_memory="cgroup")
    assert kind == "oom"
    assert "probably" not in message
    kind, message = ended(-signal.SIGKILL, out_of_memory="machine")
    assert kind == "oom"
    assert "probably" in message
    assert ended(-signal.SIGKILL) == ("killed", "the process was killed by SIGKILL")
    assert ended(-signal.SIGSEGV, out_of_memory="cgroup")[0] == "killed"


def test_silence_and_a_stop_come_first() -> None:
    assert ended(-signal.SIGKILL, silence_s=0.5, out_of_memory="cgroup")[0] == "timeout"
    kind, message = ended(-signal.SIGKILL, stopped=True, out_of_memory="cgroup")
    assert (kind, message) == ("stopped", "the run was stopped")
    assert "log.txt" in ended(3)[1]
