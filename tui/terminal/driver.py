"""A terminal driver that survives what terminals do: bad bytes, stalls, hang-ups."""

from __future__ import annotations

import os
import selectors
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llmprof.tui.terminal.textual_inside import InnerDriver

if TYPE_CHECKING:
    from textual.app import App

MOVES = frozenset({"tab", "shift+tab", "enter", "escape"})  # keys that give the focus away
MOVE_S = 0.03  # that this takes


class TerminalFile:
    """The terminal as a file that never raises: a closed one is reported once instead."""

    def __init__(self, fd: int, encoding: str, on_hangup: Callable[[], None]) -> None:
        self._fd = fd
        self._encoding = encoding
        self._on_hangup = on_hangup
        self._gone = False

    def fileno(self) -> int:
        """The file descriptor."""
        return self._fd

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._fd)

    def flush(self) -> None:
        """Nothing waits here."""

    def write(self, text: str) -> int:
        """Write all of the text, characters that the encoding lacks as "?"."""
        data = memoryview(text.encode(self._encoding, "replace"))
        while data and not self._gone:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                _wait_writable(self._fd)
            except OSError:
                self._gone = True
                self._on_hangup()
        return len(text)


class TerminalDriver(InnerDriver):
    """Textual's Linux driver with input that cannot crash it and output that cannot block it."""

    encoding = "utf-8"

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self.output = TerminalFile(sys.__stderr__.fileno(), self.encoding, self._hung_up)  # type: ignore[union-attr]
        self.write_to(self.output)
        self._reported = False

    def run_input_thread(self) -> None:
        """Read keys until told to stop; undecodable bytes become U+FFFD and are no key."""
        parser = self.key_parser()
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(0.1):
                    try:
                        data = os.read(self.fileno, 4096)
                    except OSError:
                        data = b""
                    if not data:
                        self._hung_up()
                        return
                    text = decode(data).replace("\ufffd", "")
                    for message in parser.feed(text) if text else ():  # "" would mean the end
                        self.process_message(message)
                        if (
                            getattr(message, "key", "") in MOVES
                        ):  # what follows is for another field
                            self.exit_event.wait(MOVE_S)
                for message in parser.tick():
                    self.process_message(message)

    def _hung_up(self) -> None:
        """The terminal is gone: as if SIGHUP had come, which some terminals fail to send."""
        if not self._reported and not self.exit_event.is_set():
            self._reported = True
            os.kill(os.getpid(), signal.SIGHUP)


def _wait_writable(fd: int) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_WRITE)
        selector.select(1.0)
