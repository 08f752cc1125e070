"""What the kernel says of other processes of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

ProcessState = Literal["going", "suspended", "gone"]
_STATES: dict[str, ProcessState] = {
    "T": "suspended",  # by Ctrl-Z or SIGSTOP
    "t": "suspended",  # by a debugger
    "Z": "gone",  # its parent has not heard of it yet
    "X": "gone",
}


def process_state(pid: int) -> ProcessState:
    """Whether a process goes on, as far as it is known; its number may be another's by now."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    except OSError:
        return "going"
    return _STATES.get(stat.rpartition(")")[2].strip()[:1], "going")  # its name may hold blanks
