"""Host memory: what a process may still take, and whether the kernel has killed for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from llmprof.core.system import cgroups

_VMSTAT = Path("/proc/vmstat")
_KILLS = "oom_kill"


def available_bytes() -> int:
    """The smaller of the machine's available memory and what the cgroups leave, in bytes."""
    machine = int(psutil.virtual_memory().available)
    return min([machine, *_cgroup_rooms()])


def limit_bytes() -> int | None:
    """What the cgroups let their processes have, in bytes; None where it is all of the machine."""
    limits = [each for each in map(_limit, cgroups.folders("memory")) if each is not None]
    least = min(limits, default=None)
    return least if least is not None and least < psutil.virtual_memory().total else None


@dataclass(frozen=True, slots=True)
class OomKills:
    """How many processes the kernel has killed for memory so far; None where it doesn't say.

    cgroup: of this process's own memory cgroup, whoever ran out (oom_kill of memory.events in
    version 2, of memory.oom_control in version 1); machine: of all (oom_kill of /proc/vmstat).
    """

    cgroup: int | None
    machine: int | None

    def since(self, before: OomKills) -> Literal["cgroup", "machine"] | None:
        """Where the kernel has killed since `before`; the machine's count is the weaker evidence.

        A cgroup that lost no process has lost none, whatever happened elsewhere.
        """
        if self.cgroup is not None and before.cgroup is not None:
            return "cgroup" if self.cgroup > before.cgroup else None
        if self.machine is not None and before.machine is not None:
            return "machine" if self.machine > before.machine else None
        return None


def oom_kills() -> OomKills:
    """What the kernel counts now."""
    machine = cgroups.counter(_VMSTAT, _KILLS)
    for folder in _memory_cgroup():
        for name in ("memory.events", "memory.oom_control"):
            if (found := cgroups.counter(folder / name, _KILLS)) is not None:
                return OomKills(found, machine)
    return OomKills(None, machine)


def _cgroup_rooms() -> list[int]:
    rooms = []
    for folder in cgroups.folders("memory"):
        limit, used = _limit(folder), _used(folder)
        if limit is not None and used is not None:
            rooms.append(max(0, limit - used + _reclaimable(folder)))
    return rooms


def _limit(folder: Path) -> int | None:
    return cgroups.number(folder / "memory.max", folder / "memory.limit_in_bytes")


def _used(folder: Path) -> int | None:
    return cgroups.number(folder / "memory.current", folder / "memory.usage_in_bytes")


def _reclaimable(folder: Path) -> int:
    return cgroups.counter(folder / "memory.stat", "inactive_file") or 0


def _memory_cgroup() -> list[Path]:
    """Where this process's memory is counted: its cgroup, or what a container shows as the root."""
    unified = cgroups.ROOT / "cgroup.controllers"
    root = cgroups.ROOT if unified.exists() else cgroups.ROOT / "memory"
    own = [each for each in cgroups.entries() if each.is_dir() and each.is_relative_to(root)]
    return own or [root]
