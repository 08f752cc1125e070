"""Where a command's words go: all of them, also through a pipe whose reader is slow."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


def put(text: str = "", end: str = "\n") -> None:
    """Write a text to standard output, whole. Raises OSError, BrokenPipeError without a reader."""
    if sys.stdout is not None:
        _write(sys.stdout, text + end)


def tell(text: str) -> None:
    """Write a line to standard error; where that can't be written there is nobody to tell."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            _write(sys.stderr, text + "\n")


def _write(stream: TextIO, text: str) -> None:
    try:
        fd = stream.fileno()
    except (OSError, ValueError):  # what stands for a stream in a test has no descriptor
        stream.write(text)
        return
    stream.flush()
    errors = "backslashreplace" if stream.errors == "strict" else stream.errors
    write_whole(fd, text.encode(stream.encoding, errors or "backslashreplace"))


def write_whole(fd: int, data: bytes) -> None:
    """Write all of data, waiting where a descriptor that does not block takes no more for now.

    Python's own streams give up there and lose the rest. Raises OSError.
    """
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            import select  # rarely needed, and a library to load

            poll = select.poll()
            poll.register(fd, select.POLLOUT)
            poll.poll()
