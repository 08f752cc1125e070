"""A run's lock: held by its engine, and says which process of which machine that is."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from llmprof.core.system.boot import boot_id, host_name, pid_namespace, this_boot
from llmprof.core.system.descriptors import Held
from llmprof.core.system.text import clean

PATIENCE_S = 1.0
MOST_BYTES = 4096
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
REMEDY = "its file system has no locks: set LLMPROF_HOME to a folder on a local disk"


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The process that holds a lock; what is not known is empty, as all but the pid was in 0.1."""

    pid: int
    host: str = ""
    boot_id: str = ""
    pid_namespace: str = ""
    loop: bool = False  # someone's own training process, which is not ours to end
    unlocked: bool = False  # its file system has no locks: only what it writes tells of it

    @property
    def local(self) -> bool:
        """Whether its lock can be tested here: on the same kernel, or where nothing else is known.

        A machine of the same name in another boot is this one before it was started anew.
        """
        other_boot = bool(self.boot_id) and not this_boot(self.boot_id)
        return not other_boot or self.host == host_name()

    @property
    def place(self) -> str:
        """Where it is, in words that follow "is going on"; "" where its pid means something."""
        if not self.local:
            return f"on {clean(self.host, 80) or 'another machine'}"
        here = pid_namespace()
        if self.pid_namespace and here and self.pid_namespace != here:
            named = f" ({clean(self.host, 80)})" if self.host else ""
            return f"in another container of this machine or outside of this one{named}"
        return ""


@contextlib.contextmanager
def hold(path: Path) -> Iterator[None]:
    """Hold a lock and write down who does.

    Raises BlockingIOError where another process has it, and another OSError, whose text names the
    remedy, on a file system without locks.
    """
    with path.open("a+b") as file:
        _take(file.fileno())
        write_holder(file)
        yield


def write_holder(file: BinaryIO, *, loop: bool = False, unlocked: bool = False) -> None:
    """Write down that this process holds the lock that was opened as `file`."""
    file.truncate(0)
    who = Holder(
        pid=os.getpid(),
        host=host_name(),
        boot_id=boot_id(),
        pid_namespace=pid_namespace(),
        loop=loop,
        unlocked=unlocked,
    )
    file.write(msgspec.json.encode(who))
    file.flush()


def hold_as_loop(path: Path) -> Held:
    """Hold a run's lock as a tracked training process: until what is returned closes.

    Raises BlockingIOError where another process has it, OSError on a file system without locks;
    who holds it is written down there all the same.
    """
    with path.open("a+b") as file:
        try:
            _take(file.fileno())
            write_holder(file, loop=True)
        except OSError as error:
            if error.errno in NO_LOCKS:
                write_holder(file, loop=True, unlocked=True)
            raise
        return Held(os.dup(file.fileno()))


def held(path: Path) -> bool:
    """Whether a process of this machine holds a lock."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def holder(path: Path) -> Holder | None:
    """Who wrote the lock last; None where nobody did, or has only just taken it."""
    try:
        with path.open("rb") as file:
            said = msgspec.json.decode(file.read(MOST_BYTES), type=Holder | int)
    except (OSError, msgspec.DecodeError):
        return None
    return Holder(pid=said) if isinstance(said, int) else said


def has_open(pid: int, path: Path) -> bool:
    """Whether a process of this namespace has a file open.

    True also where it may not be known, as of another user's process. Raises ProcessLookupError
    for a process that is gone, FileNotFoundError for a file.
    """
    try:
        entries = list(Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH)) from None
    except OSError:
        return True
    wanted = path.stat()
    for entry in entries:
        with contextlib.suppress(OSError):
            if os.path.samestat(entry.stat(), wanted):
                return True
    return False


def try_locks(folder: Path, path: Path) -> None:
    """Take and leave the lock of a new run's folder, which is removed where that is impossible.

    Raises OSError, whose text names the remedy on a file system without locks.
    """
    try:
        with path.open("a+b") as file:
            _take(file.fileno())
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _take(fd: int) -> None:
    """Lock it; whoever looks whether it is locked holds it for an instant, so try for a while."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        except OSError as error:
            if error.errno in NO_LOCKS:
                raise OSError(error.errno, f"{os.strerror(error.errno)}; {REMEDY}") from error
            raise
        else:
            return
