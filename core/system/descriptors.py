"""Descriptors in someone else's process, which may close any of them and use its number again."""

from __future__ import annotations

import contextlib
import errno
import os


class Held:
    """A descriptor of ours, used and closed only while it is what was opened."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._opened = os.fstat(fd)

    @property
    def ours(self) -> bool:
        """Whether it is open still, and no other file has its number."""
        try:
            return os.path.samestat(os.fstat(self._fd), self._opened)
        except OSError:
            return False

    def fileno(self) -> int:
        """Its number. Raises OSError where that is closed, or another file's by now."""
        if not self.ours:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._fd

    def close(self) -> None:
        """Let go of it where it is ours; may be called twice."""
        fd, ours = self._fd, self.ours
        self._fd = -1
        if ours:
            with contextlib.suppress(OSError):  # the last bytes of a disk that is full or gone
                os.close(fd)


def pipe() -> tuple[Held, Held]:
    """A pipe to read from and to write into."""
    read, write = os.pipe()
    return Held(read), Held(write)
