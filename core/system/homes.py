"""The folders that a user's runs and presets are kept in."""

from __future__ import annotations

import os
from pathlib import Path


class NoHome(RuntimeError):
    """A user of whom no home directory is known; its text is one line for the user."""


def state_home() -> Path:
    """$LLMPROF_HOME, else the user's state folder for llmprof. Raises NoHome."""
    home = os.environ.get("LLMPROF_HOME")
    if home:
        return Path(home)
    found = _absolute("user_state_dir")
    if found is None:
        raise NoHome(
            f"user {os.geteuid()} has no home directory here: set LLMPROF_HOME to a folder for runs"
        )
    return found


def config_home() -> Path:
    """The user's configuration folder for llmprof; the machine's where no home is known."""
    return _absolute("user_config_dir") or Path("/etc/xdg/llmprof")


def _absolute(kind: str) -> Path | None:
    """A folder of the user's as platformdirs calls it; None where it lies below an unknown home."""
    import platformdirs  # a tenth of `llmprof --help`, which has no use for it

    try:
        path = Path(getattr(platformdirs, kind)("llmprof"))
    except RuntimeError:  # older versions of platformdirs leave the ~ as it is
        return None
    return path if path.is_absolute() else None
