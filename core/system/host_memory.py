"""Host memory: what a process may still take, and whether the kernel has killed for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

_CGROUP = Path("/sys/fs/cgroup")
_VMSTAT = Path("/proc/vmstat")
_OWN = Path("/proc/self/cgroup")


def available_bytes() -> int:
    """The smaller of the machine's available memory and what the cgroups leave, in bytes."""
    machine = int(psutil.virtual_memory().available)
    return min([machine, *_cgroup_rooms()])


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
    machine = _counter(_VMSTAT)
    for folder in _memory_cgroup():
        for name in ("memory.events", "memory.oom_control"):
            if (found := _counter(folder / name)) is not None:
                return OomKills(found, machine)
    return OomKills(None, machine)


def _counter(path: Path, name: str = "oom_kill") -> int | None:
    """The value of a line "name value" of a kernel's file."""
    try:
        for line in path.read_text().splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return None


def _cgroup_rooms() -> list[int]:
    rooms = []
    for folder in _own_cgroups():
        limit = _number(folder / "memory.max", folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.current", folder / "memory.usage_in_bytes")
        if limit is not None and used is not None:
            rooms.append(max(0, limit - used + _reclaimable(folder)))
    return rooms


def _own_cgroups() -> list[Path]:
    folders = [_CGROUP, _CGROUP / "memory"]
    for own in _entries():
        folders += [own, *own.parents]
    return [f for f in dict.fromkeys(folders) if f.is_relative_to(_CGROUP)]


def _memory_cgroup() -> list[Path]:
    """Where this process's memory is counted: its cgroup, or what a container shows as the root."""
    unified = _CGROUP / "cgroup.controllers"
    root = _CGROUP if unified.exists() else _CGROUP / "memory"
    return [own for own in _entries() if own.is_dir() and own.is_relative_to(root)] or [root]


def _entries() -> list[Path]:
    """The folders of this process's cgroups, as /proc/self/cgroup names them."""
    found = []
    try:
        for line in _OWN.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            base = _CGROUP if not controllers else _CGROUP / controllers.split(",")[0]
            found.append(base / path.lstrip("/"))
    except (OSError, ValueError):
        pass
    return found


def _reclaimable(folder: Path) -> int:
    return _counter(folder / "memory.stat", "inactive_file") or 0


def _number(*paths: Path) -> int | None:
    for path in paths:
        try:
            return int(path.read_text())
        except (OSError, ValueError):
            continue
    return None
