"""Processes that end with their owner, by the kernel's hand."""

from __future__ import annotations

import fcntl
import os
import select
import signal

_F_SETSIG = 10  # linux/fcntl.h; the fcntl module has no name for it


def die_with(fd: int) -> None:
    """Have the kernel SIGKILL this process group once the pipe's last write end closes.

    No thread waits and no Python runs: it also ends a process that is stopped or holds the GIL.
    fd is the read end of a pipe on which nothing is ever written.
    """
    fcntl.fcntl(fd, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(fd, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    if poll.poll(0):  # it closed before the kernel was asked to watch
        os.killpg(0, signal.SIGKILL)
