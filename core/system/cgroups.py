"""Which cgroups this process is in, of both versions, and the numbers in their files."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")


def entries() -> list[Path]:
    """The folders of this process's cgroups, as /proc/self/cgroup names them."""
    found = []
    try:
        for line in OWN.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            base = ROOT if not controllers else ROOT / controllers.split(",")[0]
            found.append(base / path.lstrip("/"))
    except (OSError, ValueError):
        pass
    return found


def folders(controller: str) -> list[Path]:
    """The own cgroups and all above them: each may hold a limit of a controller.

    What a container shows as the root comes first: there the own path leads nowhere.
    """
    found = [ROOT, ROOT / controller]
    for own in entries():
        found += [own, *own.parents]
    return [folder for folder in dict.fromkeys(found) if folder.is_relative_to(ROOT)]


def number(*paths: Path) -> int | None:
    """The number in the first of several files that holds one, as "max" is none."""
    for path in paths:
        try:
            return int(path.read_text())
        except (OSError, ValueError):
            continue
    return None


def counter(path: Path, name: str) -> int | None:
    """The value of a line "name value" of a kernel's file."""
    try:
        for line in path.read_text().splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    return None
