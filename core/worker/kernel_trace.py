"""A profiler session as a Chrome trace, packed, whole or not at all."""

from __future__ import annotations

import errno
import gzip
import mmap
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from llmprof.core.system.atomic import whole_file

PROBE_BYTES = 1 << 20


def write_trace(results: Any, path: Path) -> Path:
    """Write kineto's results, which can be done once, as gzipped JSON; the path. Raises OSError.

    The JSON is written in a folder beside the path first: torch's own packing would put it into
    the system's temporary folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".trace-", dir=path.parent) as folder:
        plain = Path(folder) / "trace.json"
        results.save(str(plain))
        if not _is_whole(plain):
            raise _why_not(Path(folder))
        with (
            whole_file(path) as draft,
            plain.open("rb") as source,
            gzip.open(draft, "wb", 6) as packed,
        ):
            shutil.copyfileobj(source, packed, 1 << 20)
    return path


def _is_whole(path: Path) -> bool:
    """Whether the JSON has an end: kineto says nothing when a write fails."""
    if not path.exists() or not path.stat().st_size:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            msgspec.json.decode(data, type=msgspec.Raw)
        except msgspec.DecodeError as error:
            return "truncated" not in str(error)
    return True


def _why_not(folder: Path) -> OSError:
    """The system's error for writing more where kineto wrote, which does not tell it."""
    largest = max(folder.iterdir(), key=lambda each: each.stat().st_size, default=folder / "more")
    try:
        with largest.open("ab") as file:
            file.write(bytes(PROBE_BYTES))
    except OSError as error:
        return error
    return OSError(errno.EIO, f"{os.strerror(errno.EIO)}: torch wrote no whole trace")
