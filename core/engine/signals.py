"""Signals as a readable descriptor."""

from __future__ import annotations

import os
import signal
from types import FrameType

STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
KILL = signal.SIGQUIT


class Signals:
    """Catches the signals that stop a run; `fd` becomes readable when one arrives."""

    def __init__(self) -> None:
        self.fd, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.received: list[int] = []
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (*STOP, KILL):
            signal.signal(number, self._note)

    def drain(self) -> list[int]:
        """Signals that came since the last call."""
        try:
            while os.read(self.fd, 512):
                pass
        except BlockingIOError:
            pass
        received, self.received = self.received, []
        return received

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)
