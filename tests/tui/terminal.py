"""A command in a pseudo-terminal, and the screen that it draws as pyte sees it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyte

from tests.waiting import PATIENCE_S

LAST = b"\x00\x00\x00"  # nothing to a terminal
OF_THE_TERMINAL = frozenset({"NO_COLOR", "LC_ALL", "LC_CTYPE", "COLUMNS", "LINES"})
SOURCE = Path(__file__).resolve().parents[2] / "src"


def environment(home: Path, **changes: str) -> dict[str, str]:
    """Variables for a process that keeps all its files below `home`."""
    kept = {k: v for k, v in os.environ.items() if k not in OF_THE_TERMINAL}
    (home / "presets").mkdir(parents=True, exist_ok=True)
    paths = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH", "")]))
    return {**kept, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8",
            "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "LLMPROF_HOME": str(home),
            "LLMPROF_PRESETS": str(home / "presets"), **changes}  # fmt: skip


class Terminal:
    """Runs `python -m llmprof` with arguments; closes everything on exit."""

    def __init__(
        self,
        home: Path,
        *arguments: str,
        size: tuple[int, int] = (80, 24),
        env: Mapping[str, str] | None = None,
        program: tuple[str, ...] = ("-m", "llmprof"),
    ) -> None:
        self.master, slave = pty.openpty()
        self.screen = pyte.Screen(*size)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        _set_size(slave, *size)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=dict(env or environment(home)),
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - the tests start no threads before
        )
        self._slave = slave

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for fd in (self.master, self._slave):
            if fd >= 0:
                os.close(fd)
        self.master = self._slave = -1

    def read(self, seconds: float = 0.05) -> bytes:
        """Take what comes within some time."""
        out = b""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.master], [], [], left)[0]:
                break
            try:
                data = os.read(self.master, 65536)
            except OSError:
                break
            if not data:
                break
            out += data
        self.raw += out
        # pyte 0.8 passes private=True to handlers of sequences that it does not know as private.
        self.stream.feed(_known(out))
        return out

    def wait(self, condition: str | Callable[[], object], seconds: float = PATIENCE_S) -> None:
        """Read until a text stands on the screen, or a condition holds."""
        deadline = time.monotonic() + seconds
        while not (condition in self.text if isinstance(condition, str) else condition()):
            assert time.monotonic() < deadline, f"{condition!r} did not come:\n{self.text}"
            assert self.process.poll() is None or self._drain(), (
                f"ended with {self.process.poll()}:\n{self.text}"
            )
            self.read()

    def press_until(self, key: str, text: str) -> None:
        """Press a key until it is heard: what follows a paste at once may belong to it."""

        def heard() -> bool:
            self.send(key)
            self.read(1.0)
            return text in self.text

        self.wait(heard)

    def send(self, data: str | bytes) -> None:
        """Type something, and wait until the program has read it."""
        os.write(self.master, data.encode() if isinstance(data, str) else data)
        self.wait(lambda: self.process.poll() is not None or not unread(self._slave))

    def resize(self, width: int, height: int) -> None:
        """Another window size, in an empty window."""
        _set_size(self.master, width, height)
        self.screen.resize(height, width)
        self.screen.reset()

    def end(self) -> int:
        """Wait for the process and all that it has written; its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end:\n{self.text}"
            self.read()
        os.set_blocking(self._slave, False)  # what it wrote may fill the terminal
        unwritten = LAST
        while not self.raw.endswith(LAST):
            assert time.monotonic() < deadline, f"its last words do not come:\n{self.text}"
            with contextlib.suppress(BlockingIOError):
                unwritten = unwritten[os.write(self._slave, unwritten) :] if unwritten else b""
            self.read()
        return self.process.returncode

    def hang_up(self) -> None:
        """Close the terminal, as a lost connection does."""
        os.close(self._slave)
        os.close(self.master)
        self.master = self._slave = -1

    @property
    def text(self) -> str:
        """The screen's lines."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    @property
    def restored(self) -> bool:
        """Whether the terminal is as it was: modes, cursor, no alternate screen, no mouse."""
        raw = self.raw
        return (
            termios.tcgetattr(self._slave) == self.before
            and raw.rfind(b"\x1b[?1049l") > raw.rfind(b"\x1b[?1049h")
            and raw.rfind(b"\x1b[?25h") > raw.rfind(b"\x1b[?25l")
            and raw.rfind(b"\x1b[?1000l") > raw.rfind(b"\x1b[?1000h")
            and raw.rfind(b"\x1b[?2004l") > raw.rfind(b"\x1b[?2004h")
        )

    def _drain(self) -> bool:
        return bool(self.read(0.1))


def unread(terminal: int) -> int:
    """Bytes that were typed into a terminal and that no program has read."""
    found = fcntl.ioctl(terminal, termios.FIONREAD, struct.pack("i", 0))
    return int(struct.unpack("i", found)[0])


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _set_size(fd: int, width: int, height: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


def _known(data: bytes) -> bytes:
    """Without sequences on which pyte fails: kitty keyboard, mode requests."""

    return re.sub(rb"\x1b\[[<>=?][0-9;]*[uq]|\x1b\[\?[0-9;]*\$p", b"", data)
