"""Which boot of which machine this is: CLOCK_MONOTONIC of another says nothing here."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


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
