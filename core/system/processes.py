"""What the kernel says of other processes of this machine."""

from __future__ import annotations

from pathlib import Path


def is_suspended(pid: int) -> bool:
    """Whether a process is stopped, as by Ctrl-Z, SIGSTOP or a debugger; False for one gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] in (["T"], ["t"])  # its name may hold blanks
