"""All that is used of Textual's private parts, by names of our own; a test looks at each of them.

A newer Textual may change any of these without a word: tests/tui/test_textual_inside.py fails then,
and this is the file to mend.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, cast

from rich.segment import Segment, Segments
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.filter import Monochrome, NoColor

BACKLOG = 4  # frames waiting for the terminal beyond which no new one is drawn
CLOSE_S = 1.0


class InnerDriver(LinuxDriver):
    """Textual's Linux driver: its file, its thread that writes, its parser of keys."""

    def write_to(self, file: Any) -> None:
        """Write to something like a file instead of standard error; before the app starts."""
        self._file = cast(Any, file)

    def key_parser(self) -> XTermParser:
        """What makes events of what a terminal sends."""
        return XTermParser(self._debug)

    def on_loop(self, work: Coroutine[Any, Any, None]) -> Future[None]:
        """Have something done on the app's loop, from the thread that reads keys."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @property
    def backlog(self) -> int:
        """Writes that wait for the terminal."""
        writer = self._writer_thread
        return 0 if writer is None else writer._queue.qsize()

    def close(self) -> None:
        """Let the writer finish, but do not wait for a terminal that takes nothing."""
        writer = self._writer_thread
        if writer is not None:
            with contextlib.suppress(Exception):
                writer._queue.put(None, timeout=CLOSE_S)
            writer.join(CLOSE_S)


class InnerApp(App[None]):
    """Textual's app: its filters of colour, and how it ends when something fails."""

    def keep_attributes_without_colour(self) -> None:
        """NO_COLOR takes colours away and leaves bold and reverse, which Textual greys."""
        self._filters = [NoColor() if isinstance(f, Monochrome) else f for f in self._filters]

    def failed(self) -> None:
        """What to do about an error that nobody caught."""

    def _fatal_error(self) -> None:
        self.failed()

    def end_saying(self, text: str) -> None:
        """End at once, with this on standard error once the terminal is given back."""
        self._exit_renderables.append(Segments([Segment(text)]))
        self._close_messages_no_wait()


def is_behind(app: App[Any]) -> bool:
    """Whether the terminal has more frames to take than new ones are drawn for."""
    return getattr(app._driver, "backlog", 0) > BACKLOG
