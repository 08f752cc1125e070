"""A terminal driver that survives what terminals do: bad bytes, stalls, hang-ups."""

from __future__ import annotations

import asyncio
import os
import selectors
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any

from textual import events

from llmprof.tui.terminal.textual_inside import InnerDriver

if TYPE_CHECKING:
    from textual.app import App
    from textual.message_pump import MessagePump

LOOK_S = 0.05  # between looks whether the terminal is given back while a key is at work
LONGEST_S = 2.0  # that keys wait for the one before


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
        self.app = app
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
                        if isinstance(message, events.Key):
                            self._wait_for_effect()
                for message in parser.tick():
                    self.process_message(message)

    def _wait_for_effect(self) -> None:
        """Wait until a key has done what it does: the next may be for what has the focus then."""
        done = self.on_loop(effect_of_key(self.app))
        for _ in range(round(LONGEST_S / LOOK_S)):
            if self.exit_event.is_set() or wait([done], LOOK_S).done:
                break
        done.cancel()

    def _hung_up(self) -> None:
        """The terminal is gone: as if SIGHUP had come, which some terminals fail to send."""
        if not self._reported and not self.exit_event.is_set():
            self._reported = True
            os.kill(os.getpid(), signal.SIGHUP)


async def effect_of_key(app: App[Any]) -> None:
    """Return once a key that was given to the app is through with everything that it reaches.

    A message that is sent after it along its way, from what has the focus up to the app, arrives
    after it; what it asks the app or a new screen for is done one turn later.
    """
    await _turn(app)
    for node in (app.focused or app.screen).ancestors_with_self:
        await _turn(node)
    for pump in (app, app.screen, app):
        await _turn(pump)


async def _turn(pump: MessagePump) -> None:
    """Return once a pump has handled what it was sent so far."""
    handled = asyncio.Event()
    if pump.post_message(events.Callback(callback=handled.set)):
        await handled.wait()


def _wait_writable(fd: int) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_WRITE)
        selector.select(1.0)
