"""One run's append-only file: write, follow, replay."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Container
from dataclasses import replace
from pathlib import Path

import msgspec

from llmprof.core import events as ev
from llmprof.core.state.reducer import Reducer
from llmprof.core.state.view import RunView
from llmprof.core.store.earlier_versions import TRANSLATED, translated
from llmprof.core.store.exit_codes import ExitCode
from llmprof.core.store.files import exit_of, files_of
from llmprof.core.store.kept_files import names_of, only_kept
from llmprof.core.store.run import Run
from llmprof.core.store.time_shift import shifted
from llmprof.core.system.descriptors import Held

_TRANSLATED = [f'"{each.__struct_config__.tag}"'.encode() for each in TRANSLATED]
NEW_FILES_S = 0.5  # between looks for files that have come
READ_BYTES = 64 << 10  # decoded at once: what comes of it still lies in the processor's cache


class _Moment(msgspec.Struct):
    t: ev.Ns


_moment = msgspec.json.Decoder(_Moment)


class JournalGone(OSError):
    """A journal that was removed while it was written to."""


class JournalWriter:
    """Appends events; a last line torn by a crash is cut off first.

    Raises OSError when the file cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._file = Held(fd)
        self._linked = os.fstat(fd).st_nlink > 0  # which not every file system counts
        _cut_torn_line(fd)

    def append(self, event: ev.Event) -> None:
        """Write one event."""
        self.append_lines(ev.encode(event))

    def append_lines(self, lines: bytes) -> None:
        """Write whole encoded lines."""
        fd, view = self._file.fileno(), memoryview(lines)
        while view:
            view = view[os.write(fd, view) :]

    def append_whole(self, lines: bytes) -> None:
        """Write whole encoded lines or none. Raises OSError, after which it may be tried again."""
        before = os.fstat(self._file.fileno()).st_size
        try:
            self.append_lines(lines)
        except OSError:
            os.ftruncate(self._file.fileno(), before)
            raise

    def check(self) -> None:
        """Raise JournalGone where nobody can read what is appended: the file was removed."""
        try:
            self._path.stat()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
                return
        else:
            if not self._linked or os.fstat(self._file.fileno()).st_nlink:
                return
        raise JournalGone(f"{self._path} was removed")

    def close(self) -> None:
        """Make the file durable and let go of it."""
        os.fsync(self._file.fileno())
        self._file.close()

    def let_go(self) -> None:
        """Let go of the file at once: a slow disk keeps nobody waiting."""
        self._file.close()

    def fileno(self) -> int:
        """Of the open file. Raises OSError where a program has closed it, as it may its own."""
        return self._file.fileno()


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
    """Readers of a run's files and one reducer: poll() takes what has arrived, view() shows it.

    Of several files the one that is farthest behind is read first, so that what they say comes in
    the order of time. The times of another boot are brought to the first file's clock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sources: list[_Source | ExitCode] = [_Source(path, first=True)]
        self._reducer = Reducer()
        self._base: ev.Segment | None = None  # ties the run's clock to the wall clock
        self._looked = -NEW_FILES_S

    def poll(self) -> bool:
        """Apply what has arrived, at most a chunk; False when nothing had."""
        self._look()
        waiting = [source for source in self._sources if source.fill()]
        if not waiting:
            return False
        if self._base is None:
            self._base = next((each.anchor for each in self._sources if each.anchor), None)
        behind = min(waiting, key=lambda source: source.begins(self._base))
        behind.apply(self._reducer, self._base)
        return True

    def look_again(self) -> None:
        """Find files that have come at the next poll, however long ago the last look was."""
        self._looked = -NEW_FILES_S

    def view(self) -> RunView:
        """The run as far as it was read."""
        return self._reducer.view()

    def close(self) -> None:
        """Let go of the files."""
        for source in self._sources:
            source.close()

    def _look(self) -> None:
        """Find files that have come."""
        now = time.monotonic()
        if now - self._looked < NEW_FILES_S:
            return
        self._looked = now
        known = {source.path for source in self._sources}
        new = [path for path in files_of(self._path) if path not in known]
        self._sources += [_source(path) for path in new]


class _Source:
    """One file of a run: whole lines that were read and not yet applied."""

    def __init__(self, path: Path, *, first: bool = False) -> None:
        self.path = path
        self.anchor: ev.Segment | None = None
        self._first = first
        self._opened = self._begun = False
        self._reader = JournalReader(path)
        self._lines = b""

    def begins(self, base: ev.Segment | None) -> int:
        """When the first line that waits was written, on the run's clock."""
        try:
            t = _moment.decode(self._lines[: self._lines.index(b"\n")]).t
        except msgspec.DecodeError:
            return 0
        return t + between_clocks(self.anchor, base)

    def fill(self) -> bool:
        """Read on where no line waits; whether one does."""
        if not self._lines:
            self._lines = self._reader.read()
            if self._lines and not self._opened:
                self._opened = True
                self.anchor = _opening(self._lines)
        return bool(self._lines)

    def apply(self, reducer: Reducer, base: ev.Segment | None) -> None:
        """Hand on what waits; of a file that is not the first without the segment it begins with:
        no engine began to write."""
        lines, self._lines = self._lines, b""
        if not self._first and self.anchor is not None and not self._begun:
            lines = lines[lines.index(b"\n") + 1 :]
        self._begun = True
        apply_lines(reducer, lines, between_clocks(self.anchor, base))

    def close(self) -> None:
        self._reader.close()


def _source(path: Path) -> _Source | ExitCode:
    return _Source(path) if exit_of(path.name) is None else ExitCode(path)


def between_clocks(other: ev.Segment | None, base: ev.Segment | None) -> int:
    """Nanoseconds from one file's monotonic clock to another's; 0 where it is the same clock."""
    if other is None or base is None or other.boot_id == base.boot_id:
        return 0
    return (other.wall_ns - other.t) - (base.wall_ns - base.t)


def _opening(lines: bytes) -> ev.Segment | None:
    """The segment that a file begins with."""
    try:
        event = ev.decode(lines[: lines.index(b"\n")])
    except (msgspec.DecodeError, ValueError):
        return None
    return event if isinstance(event, ev.Segment) else None


def apply_lines(reducer: Reducer, lines: bytes, by_ns: int = 0) -> None:
    """Decode whole lines into a reducer: at once where all are events, else one by one.

    Their times are of a clock that is by_ns behind the run's.
    """
    events = ev.decode_lines(lines)
    if events is not None:
        if any(kind in lines for kind in _TRANSLATED):
            events = [translated(event) for event in events]
        reducer.extend([shifted(event, by_ns) for event in events] if by_ns else events)
        return
    for line in lines.split(b"\n"):
        apply_line(reducer, line, by_ns)


def apply_line(reducer: Reducer, line: bytes, by_ns: int = 0) -> None:
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
        reducer.apply(shifted(translated(event), by_ns))


def replay(path: Path, artifacts: Container[str] | None = None) -> RunView:
    """The whole of a journal as it stands, and whether it goes on.

    Files for other tools are named where they are among the artifacts: those in the run's folder,
    unless other names are given. Raises OSError when it can't be read.
    """
    if not path.is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    going = Run(path.parent).alive()  # as it was before: an end that comes meanwhile is read
    follower = Follower(path)
    try:
        while follower.poll():
            pass
        names = names_of(Run(path.parent).artifacts) if artifacts is None else artifacts
        view = only_kept(follower.view(), names)
        return replace(view, going=True) if going and view.outcome is None else view
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
