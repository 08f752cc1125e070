"""`llmprof watch --screen`: the screen in front, the training and its output behind it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import IO

from llmprof.cli.exits import UserError
from llmprof.cli.open_screen import open_screen, require_terminal
from llmprof.cli.streams import tell
from llmprof.core.store.run import Run, RunStore

POLL_S = 0.1
PASSED_ON = (signal.SIGTERM, signal.SIGHUP)  # Ctrl-C reaches the command by itself


def on_screen(words: list[str], environment: dict[str, str]) -> int:
    """Start a command, show its training once it begins, then its output to its end.

    The command's exit code, or 128 + n where signal n ended it. Raises UserError.
    """
    require_terminal()
    store = RunStore()
    before = store.newest_loop()
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                words,
                env={"PYTHONUNBUFFERED": "1", **environment},
                stdout=output,
                stderr=output,
            )
        except OSError as error:
            raise UserError(f"cannot run {words[0]}: {error.strerror}") from error
        with _passing_on(process):
            printed = _Printed(output)
            found = _begun(process, store, before, printed)
            if found is not None:
                open_screen(watch=found, store=store)
                if process.poll() is None:
                    tell("llmprof: the training goes on; this is what it prints")
            while process.poll() is None:
                printed.more()
                time.sleep(POLL_S)
            printed.more()
    code = process.returncode
    return code if code >= 0 else 128 - code


def _begun(
    process: subprocess.Popen[bytes], store: RunStore, before: Run | None, printed: _Printed
) -> Run | None:
    """The run of a command whose training began; None where it ended without one."""
    while process.poll() is None:
        printed.more()
        newest = store.newest_loop()
        if newest is not None and newest != before:
            return newest
        time.sleep(POLL_S)
    return None


class _Printed:
    """What a command has printed, given on from where it was left."""

    def __init__(self, output: IO[bytes]) -> None:
        self._output = output
        self._at = 0

    def more(self) -> None:
        """Print what has come."""
        with contextlib.suppress(OSError, ValueError):
            while chunk := os.pread(self._output.fileno(), 65536, self._at):
                self._at += len(chunk)
                sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


@contextmanager
def _passing_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Signals are the command's to answer; the screen sets its own while it is open."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    old = {number: signal.signal(number, pass_on) for number in PASSED_ON}
    old[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, previous in old.items():
            signal.signal(number, previous)
