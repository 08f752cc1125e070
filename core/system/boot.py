"""Which boot of which machine this is, and whose process ids: elsewhere both mean nothing."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from llmprof.core.system.text import clean

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PID_NAMESPACE = Path("/proc/self/ns/pid")


@cache
def boot_id() -> str:
    """The kernel's random id of this boot, "" where it can't be read."""
    try:
        return _BOOT_ID.read_text("ascii", "replace").strip()
    except OSError:
        return ""


def this_boot(other: str) -> bool:
    """Whether a boot id is known and this boot's, so that monotonic times can be compared."""
    return bool(other) and other == boot_id()


def pid_namespace() -> str:
    """The namespace that this process's id is of, as "pid:[4026531836]"; "" where unknown."""
    try:
        return str(_PID_NAMESPACE.readlink())
    except OSError:
        return ""


def host_name() -> str:
    """The machine's name in its network, or the container's; "" where it has none."""
    return clean(os.uname().nodename, 80)
