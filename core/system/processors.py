"""The processors: their name, those that this process may use, and how much of them."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from llmprof.core.system import cgroups
from llmprof.core.system.numbers import as_given
from llmprof.core.system.text import clean

CPUINFO = Path("/proc/cpuinfo")
# MIDR_EL1 implementers (arch/arm64/include/asm/cputype.h); where no name is given, they tell it.
_MAKERS = {
    0x41: "Arm", 0x42: "Broadcom", 0x43: "Cavium", 0x46: "Fujitsu", 0x48: "HiSilicon",
    0x4E: "NVIDIA", 0x50: "APM", 0x51: "Qualcomm", 0x53: "Samsung", 0x61: "Apple",
    0x6D: "Microsoft", 0xC0: "Ampere",
}  # fmt: skip


def cpu_name() -> str:
    """The processor's name; of an Arm its implementer and part, which tell models apart."""
    fields: dict[str, dict[str, None]] = {}
    try:
        for line in CPUINFO.read_text("utf-8", "replace").splitlines():
            name, colon, value = line.partition(":")
            if colon and value.strip():
                fields.setdefault(name.strip(), {})[value.strip()] = None
    except OSError:
        pass
    for name in ("model name", "cpu model", "cpu", "uarch"):  # x86; MIPS; POWER; RISC-V
        if name in fields:
            return clean(next(iter(fields[name])), 80)
    if "CPU part" in fields:
        maker = " and ".join(map(_maker, fields.get("CPU implementer", ())))
        return clean(f"{maker} CPU, part {' and '.join(fields['CPU part'])}".strip(), 80)
    return clean(platform.processor() or platform.machine(), 80)


def usable_cpus() -> tuple[int, ...]:
    """The numbers of the CPUs that this process may run on."""
    return tuple(sorted(os.sched_getaffinity(0)))


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers in short, as taskset takes them: 0-3,8."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def quota() -> float | None:
    """How many CPUs' time a cgroup lets its processes have together; None without such a limit."""
    found = [share for folder in cgroups.folders("cpu") if (share := _share(folder)) is not None]
    return min(found, default=None)


def quota_text(cpus: float) -> str:
    """A quota in words: quota of 1.5 CPUs."""
    return f"quota of {as_given(cpus)} {'CPU' if cpus == 1 else 'CPUs'}"


@dataclass(frozen=True, slots=True)
class Throttling:
    """How often a quota was used up, and how long CPUs that had work stood still for it."""

    periods: int
    time_ns: int  # summed over CPUs

    def since(self, before: Throttling) -> Throttling:
        """What has come since an earlier reading."""
        return Throttling(self.periods - before.periods, self.time_ns - before.time_ns)


def throttling() -> Throttling | None:
    """What the kernel counts now; None without a quota."""
    periods = time_ns = 0
    limited = False
    for folder in cgroups.folders("cpu"):
        if _share(folder) is None:
            continue
        limited = True
        stat = folder / "cpu.stat"
        periods += cgroups.counter(stat, "nr_throttled") or 0
        time_ns += 1000 * (cgroups.counter(stat, "throttled_usec") or 0)  # version 2
        time_ns += cgroups.counter(stat, "throttled_time") or 0  # version 1
    return Throttling(periods, time_ns) if limited else None


def _share(folder: Path) -> float | None:
    """The quota of one cgroup in CPUs."""
    try:
        quota_us, period_us = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        own = cgroups.number(folder / "cpu.cfs_quota_us")
        period = cgroups.number(folder / "cpu.cfs_period_us")
        return own / period if own and period and own > 0 else None
    try:
        return int(quota_us) / int(period_us)
    except (ValueError, ZeroDivisionError):  # "max"
        return None


def _maker(code: str) -> str:
    try:
        return _MAKERS.get(int(code, 16), code)
    except ValueError:
        return code
