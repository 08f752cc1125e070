"""Host memory that a process may still take: the machine's and its cgroup's."""

from __future__ import annotations

from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int:
    """The smaller of the machine's available memory and what the cgroups leave, in bytes."""
    machine = int(psutil.virtual_memory().available)
    return min([machine, *_cgroup_rooms()])


def oom_kills() -> int:
    """How many processes the kernel has killed for memory since boot; 0 where it doesn't say."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0


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
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            base = _CGROUP if not controllers else _CGROUP / controllers.split(",")[0]
            own = base / path.lstrip("/")
            folders += [own, *own.parents]
    except (OSError, ValueError):
        pass
    return [f for f in dict.fromkeys(folders) if f.is_relative_to(_CGROUP)]


def _reclaimable(folder: Path) -> int:
    try:
        for line in (folder / "memory.stat").read_text().splitlines():
            if line.startswith("inactive_file "):
                return int(line.split()[1])
    except (OSError, ValueError):
        pass
    return 0


def _number(*paths: Path) -> int | None:
    for path in paths:
        try:
            return int(path.read_text())
        except (OSError, ValueError):
            continue
    return None
