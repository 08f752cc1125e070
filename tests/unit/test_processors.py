"""Processors and settings: names of all makes, quotas of both cgroup versions, variables."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import psutil
import pytest

from llmprof.core import events as ev
from llmprof.core.devices.host import PsutilHost
from llmprof.core.figures.same_machine import machine_differences
from llmprof.core.monitor import words
from llmprof.core.report.markdown import header
from llmprof.core.state.reducer import Reducer
from llmprof.core.store.calibrations import load_ceilings, save_ceilings
from llmprof.core.system import cgroups, processors
from llmprof.core.system.host_memory import limit_bytes
from llmprof.core.system.processors import Throttling, cpu_name, quota, ranges, throttling
from llmprof.core.system.variables import relevant
from tests.builders import planted


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel's files, to be written by the test."""
    monkeypatch.setattr(cgroups, "ROOT", tmp_path / "cgroup")
    monkeypatch.setattr(cgroups, "OWN", tmp_path / "own")
    monkeypatch.setattr(processors, "CPUINFO", tmp_path / "cpuinfo")
    return tmp_path


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# ------------------------------------------------------------------------------- names

GRAVITON = (
    "processor\t: 0\nBogoMIPS\t: 2100.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n"
    "CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0xd4f\nCPU revision\t: 1\n\n"
)


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC 9654\n\nprocessor\t: 1\n", "AMD EPYC 9654"),
        (GRAVITON * 2, "Arm CPU, part 0xd4f"),
        (GRAVITON + GRAVITON.replace("0xd4f", "0xd05"), "Arm CPU, part 0xd4f and 0xd05"),
        (GRAVITON.replace("0x41", "0xc0"), "Ampere CPU, part 0xd4f"),
        (GRAVITON.replace("0x41", "0x99"), "0x99 CPU, part 0xd4f"),
        ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported"),
    ],
)
def test_a_processor_has_a_name_on_every_make(kernel: Path, cpuinfo: str, name: str) -> None:
    put(kernel / "cpuinfo", cpuinfo)
    assert cpu_name() == name


def test_a_machine_that_says_nothing_is_told_by_its_kind(kernel: Path) -> None:
    assert cpu_name() == (os.uname().machine)


def test_cpus_in_short() -> None:
    assert ranges([0, 1, 2, 3, 8, 10, 11]) == "0-3,8,10-11"
    assert ranges([]) == ""


# ------------------------------------------------------------------------------- quotas


def test_the_tightest_quota_of_version_2(kernel: Path) -> None:
    put(kernel / "own", "0::/a/b\n")
    put(kernel / "cgroup/a/cpu.max", "150000 100000\n")
    put(kernel / "cgroup/a/b/cpu.max", "max 100000\n")
    put(kernel / "cgroup/a/cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_usec 700\n")
    put(kernel / "cgroup/a/b/cpu.stat", "nr_throttled 99\nthrottled_usec 99\n")
    assert quota() == 1.5
    assert throttling() == Throttling(periods=4, time_ns=700_000)


def test_version_1_and_a_container_that_sees_its_cgroup_as_the_root(kernel: Path) -> None:
    put(kernel / "own", "3:cpu,cpuacct:/docker/7\n4:memory:/docker/7\n")
    put(kernel / "cgroup/cpu/cpu.cfs_quota_us", "200000\n")
    put(kernel / "cgroup/cpu/cpu.cfs_period_us", "100000\n")
    put(kernel / "cgroup/cpu/cpu.stat", "nr_throttled 3\nthrottled_time 5000\n")
    put(kernel / "cgroup/memory/memory.limit_in_bytes", str(1 << 30))
    assert quota() == 2.0
    assert throttling() == Throttling(periods=3, time_ns=5000)
    assert limit_bytes() == 1 << 30


@pytest.mark.parametrize("value", ["-1", "", "0", "junk"])
def test_no_quota_is_none(kernel: Path, value: str) -> None:
    put(kernel / "cgroup/cpu/cpu.cfs_quota_us", value)
    put(kernel / "cgroup/cpu/cpu.cfs_period_us", "100000")
    put(kernel / "cgroup/cpu.max", value)
    assert quota() is None
    assert throttling() is None


def test_a_limit_above_what_there_is_is_none(kernel: Path) -> None:
    assert limit_bytes() is None
    put(kernel / "cgroup/memory.max", str(psutil.virtual_memory().total + 1))
    assert limit_bytes() is None


def test_the_monitor_names_the_limit(kernel: Path) -> None:
    put(kernel / "cgroup/memory.max", str(1 << 30))
    host = PsutilHost().read()
    assert host.memory_limit_bytes == 1 << 30
    assert words.host_memory(host).endswith(", limit 1.0 GiB")
    free = msgspec.structs.replace(host, memory_limit_bytes=None)
    assert "limit" not in words.host_memory(free)


def test_the_header_names_what_may_be_used() -> None:
    environment = msgspec.structs.replace(
        planted.CPU, cpu_count=64, cpus_usable=4, affinity="0-3", cpu_quota=2.5, threads=4,
        memory_limit_bytes=8 << 30, variables={"OMP_NUM_THREADS": "4", "MKL_`x`": "|"},
    )  # fmt: skip
    reducer = Reducer()
    reducer.apply(environment)
    text = header(reducer.view())
    assert (
        "- **Host:** Some CPU, 64 CPUs, 4 of them usable (0-3), quota of 2.5 CPUs, 4 threads, "
        "memory limit 8.0 GiB" in text
    )
    assert "- **Variables:** `OMP_NUM_THREADS=4`, `` MKL_`x`=| ``" in text


# ---------------------------------------------------------------------- what is compared


def test_variables_that_matter_are_kept_without_folders() -> None:
    kept = relevant(
        {
            "OMP_NUM_THREADS": "4",
            "PYTORCH_ALLOC_CONF": "expandable_segments:True",
            "LD_PRELOAD": "/home/someone/lib/libjemalloc.so.2:/opt/x.so",
            "TORCH_HOME": "/home/someone/.cache",
            "TORCHINDUCTOR_CACHE_DIR": "/tmp/x",
            "TORCHELASTIC_RUN_ID": "17",
            "CUDA_PATH": "/usr/local/cuda",
            "HF_TOKEN": "secret",
            "PATH": "/bin",
            "NCCL_DEBUG": "INFO\x1b[31m",
        }
    )
    assert kept == {
        "LD_PRELOAD": "libjemalloc.so.2 x.so",
        "NCCL_DEBUG": "INFO[31m",
        "OMP_NUM_THREADS": "4",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
    }


NOW = msgspec.structs.replace(
    planted.CPU, threads=2, cpus_usable=2, affinity="0-1", variables={"CUDA_VISIBLE_DEVICES": "0"}
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"threads": 1}, ["threads 2 against 1"]),
        ({"cpus_usable": 1, "affinity": "0"}, ["usable CPUs 2 against 1"]),
        ({"affinity": "4-5"}, []),
        ({"cpu_quota": 1.5}, ["CPU quota none against 1.5"]),
        (
            {"threads": 1, "variables": {"OMP_NUM_THREADS": "1"}},
            ["threads 2 against 1", "OMP_NUM_THREADS unset against 1"],
        ),
        ({"variables": {"CUDA_VISIBLE_DEVICES": "3"}}, []),
    ],
)
def test_what_differs_is_named(change: dict[str, object], said: list[str]) -> None:
    assert machine_differences(NOW, msgspec.structs.replace(NOW, **change)) == said


def test_what_an_older_version_did_not_write_down_differs_from_nothing() -> None:
    old = ev.decode(
        b'{"kind":"Environment","t":1,"device":"cpu","device_name":"Some CPU",'
        b'"torch":"2.13.0","cpu_name":"Some CPU","threads":2}'
    )
    assert isinstance(old, ev.Environment)
    assert machine_differences(old, NOW) == []
    assert machine_differences(NOW, old) == []


def test_threads_of_the_host_are_no_matter_of_a_card() -> None:
    card = msgspec.structs.replace(NOW, device="cuda:0")
    assert machine_differences(card, msgspec.structs.replace(card, threads=64)) == []


def test_a_calibration_with_one_thread_is_none_for_two(tmp_path: Path) -> None:
    path = tmp_path / "calibrations.json"
    ceilings = ev.Ceilings(matmul_tflops={"fp32": 0.1})
    one = msgspec.structs.replace(NOW, threads=1)
    save_ceilings(one, ceilings, path)
    assert load_ceilings(one, path) == ceilings
    for other in (
        NOW,
        msgspec.structs.replace(one, cpus_usable=1),
        msgspec.structs.replace(one, cpu_quota=0.5),
    ):
        assert load_ceilings(other, path) is None
