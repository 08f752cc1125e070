"""The files that a run's events lie in: one a process that writes, and how one ended."""

from __future__ import annotations

import re
from pathlib import Path

JOURNAL = "journal.jsonl"  # the engine's, or a tracked loop's rank 0
MANIFEST = "writeup.json"  # of a write-up, beside its runs
MOST_FILES = 20_000
_EXIT = re.compile(r"exit-(\d{1,7})(?:-restart-(\d{1,7}))?")
_BESIDE = re.compile(r"(rank|devices)-\d{1,7}(-restart-\d{1,7})?\.jsonl")


def loop_file(rank: int, restart: int) -> str:
    """Where a rank of a tracked loop writes."""
    if not restart:
        return f"rank-{rank}.jsonl" if rank else JOURNAL
    return f"rank-{rank}-restart-{restart}.jsonl"


def samples_file(rank: int, restart: int) -> str:
    """Where the samples of a machine's devices are: the rank's that has them taken."""
    return f"devices-{rank}-restart-{restart}.jsonl" if restart else f"devices-{rank}.jsonl"


def exit_file(rank: int, restart: int) -> str:
    """Where the exit code of a loop's process is put, if Python can't tell it."""
    return f"exit-{rank}-restart-{restart}" if restart else f"exit-{rank}"


def exit_of(name: str) -> tuple[int, int] | None:
    """The rank and restart whose exit code a file holds; None for another file."""
    found = _EXIT.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2] or 0))


def is_beside(name: str) -> bool:
    """Whether a file is one that a tracked loop has beside its first journal."""
    return _BESIDE.fullmatch(name) is not None or exit_of(name) is not None


def files_of(journal: Path) -> list[Path]:
    """A run's files of events, its first journal before the others; those that are there.

    A journal under another name, as one that was copied, stands for itself.
    """
    if journal.name != JOURNAL:
        return [journal]
    try:
        beside = sorted(path for path in journal.parent.iterdir() if is_beside(path.name))
    except OSError:
        beside = []
    return [journal, *beside[:MOST_FILES]]
