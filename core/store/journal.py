"""One run's append-only file: write, follow, replay."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec

from llmprof.core import events as ev
from llmprof.core.state.reducer import Reducer
from llmprof.core.state.view import RunView
from llmprof.core.store.earlier_versions import translated

_RUN_STARTED = f'"{ev.RunStarted.__struct_config__.tag}"'.encode()
READ_BYTES = 64 << 10  # decoded at once: what comes of it still lies in the processor's cache


class JournalGone(OSError):
    """A journal that was removed while it was written to."""


class JournalWriter:
    """Appends events; a last line torn by a crash is cut off first.

    Raises OSError when the file cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._linked = os.fstat(self._fd).st_nlink > 0  # which not every file system counts
        _cut_torn_line(self._fd)

    def append(self, event: ev.Event) -> None:
        """Write one event."""
        self.append_lines(ev.encode(event))

    def append_lines(self, lines: bytes) -> None:
        """Write whole encoded lines."""
        view = memoryview(lines)
        while view:
            view = view[os.write(self._fd, view) :]

    def check(self) -> None:
        """Raise JournalGone where nobody can read what is appended: the file was removed."""
        try:
            self._path.stat()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
                return
        else:
            if not self._linked or os.fstat(self._fd).st_nlink:
                return
        raise JournalGone(f"{self._path} was removed")

    def close(self) -> None:
        """Make the file durable and let go of it."""
        os.fsync(self._fd)
        os.close(self._fd)


class JournalReader:
    """Reads whole lines as they arrive; a torn last line waits for its end.

    What is read of a torn line is read again: a resumed run's writer cuts it off first.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._offset = 0  # the end of the last whole line

    def read(self, limit: int = READ_BYTES) -> bytes:
        """Whole lines of the next `limit` bytes, or one longer line; empty when none has come.

        A file that does not exist yet has no lines. Raises OSError for one that can't be read.
        """
        if self._fd is None:
            try:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return b""
        data = os.pread(self._fd, limit, self._offset)
        end = data.rfind(b"\n") + 1
        if not end:
            return self.read(2 * limit) if len(data) == limit else b""
        self._offset += end
        return data[:end]

    def close(self) -> None:
        """Let go of the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class Follower:
    """A reader and a reducer: poll() takes what has arrived, view() shows the run."""

    def __init__(self, path: Path) -> None:
        self._reader = JournalReader(path)
        self._reducer = Reducer()

    def poll(self) -> bool:
        """Apply what has arrived, at most a chunk; False when nothing had."""
        lines = self._reader.read()
        apply_lines(self._reducer, lines)
        return bool(lines)

    def view(self) -> RunView:
        """The run as far as it was read."""
        return self._reducer.view()

    def close(self) -> None:
        """Let go of the file."""
        self._reader.close()


def apply_lines(reducer: Reducer, lines: bytes) -> None:
    """Decode whole lines into a reducer: at once where all are events, else one by one."""
    events = ev.decode_lines(lines)
    if events is not None:
        if _RUN_STARTED in lines:
            events = [translated(event) for event in events]
        reducer.extend(events)
        return
    for line in lines.split(b"\n"):
        apply_line(reducer, line)


def apply_line(reducer: Reducer, line: bytes) -> None:
    """Decode a line into a reducer; what cannot be read is counted there, never raised."""
    if not line.strip():
        return
    try:
        event = ev.decode(line)
    except ev.UnknownKind:
        reducer.skip(unknown=True)
    except (msgspec.DecodeError, ValueError, OverflowError):
        reducer.skip(unknown=False)
    else:
        reducer.apply(translated(event))


def replay(path: Path) -> RunView:
    """The whole of a journal as it stands. Raises OSError when it can't be read."""
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    follower = Follower(path)
    try:
        while follower.poll():
            pass
        return follower.view()
    finally:
        follower.close()


def _cut_torn_line(fd: int) -> None:
    size = os.fstat(fd).st_size
    end = size
    while end:
        start = max(0, end - 65_536)
        block = os.pread(fd, end - start, start)
        newline = block.rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(fd, end)
