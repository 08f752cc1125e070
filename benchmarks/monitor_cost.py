"""What a live monitor costs: CPU of its whole process tree, bytes to the terminal.

Runs each command in a pseudo-terminal of the same size, one after the other, and measures a
stretch after its start. `--command "nvitop --interval 0.25"` adds another monitor.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import pty
import selectors
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass

import psutil

OURS = f"{sys.executable} -m llmprof monitor --interval 0.25 --refresh 4"


@dataclass
class Cost:
    """Percent of one core and bytes a second over the measured stretch."""

    command: str
    cpu_percent: float
    bytes_per_s: float
    memory_mib: float
    first_bytes: int


class Terminal:
    """A command in a pseudo-terminal of its own."""

    def __init__(self, command: str, width: int, height: int) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        variables = {
            name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")
        }
        variables |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
        self._process = subprocess.Popen(
            shlex.split(command),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=variables,
            start_new_session=True,
        )
        os.close(slave)
        self.tail = b""

    def read(self, seconds: float) -> int:
        """Bytes written within a time."""
        end, count = time.monotonic() + seconds, 0
        with selectors.DefaultSelector() as selector:
            selector.register(self._master, selectors.EVENT_READ)
            while (left := end - time.monotonic()) > 0:
                if not selector.select(left):
                    break
                try:
                    data = os.read(self._master, 65536)
                except OSError:  # the command ended
                    break
                self.tail = (self.tail + data)[-2000:]
                count += len(data)
        return count

    def usage(self) -> tuple[float, float]:
        """CPU seconds and resident MiB of the process and all below it."""
        root = psutil.Process(self._process.pid)
        seconds = memory = 0.0
        for process in (root, *root.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                seconds += times.user + times.system
                memory += process.memory_info().rss / 2**20
        return seconds, memory

    @property
    def ended(self) -> bool:
        """Whether the command is over."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End the command."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._master)


def measure(command: str, size: tuple[int, int], start_s: float, seconds: float) -> Cost:
    """Cost of one command. Raises RuntimeError when it ends by itself."""
    terminal = Terminal(command, *size)
    try:
        first = terminal.read(start_s)
        if terminal.ended:
            raise RuntimeError(f"{command} ended: {terminal.tail.decode('utf-8', 'replace')}")
        before, began = terminal.usage()[0], time.monotonic()
        count = terminal.read(seconds)
        after, memory = terminal.usage()
        span = time.monotonic() - began
    finally:
        terminal.close()
    return Cost(command, 100 * (after - before) / span, count / span, memory, first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", action="append", default=[], help="another monitor")
    parser.add_argument("--size", default="120x30")
    parser.add_argument("--start", type=float, default=5.0, help="seconds before measuring")
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    print("| command | CPU % of a core | bytes/s | memory MiB |\n|---|---:|---:|---:|")
    for command in (OURS, *options.command):
        try:
            cost = measure(command, (width, height), options.start, options.seconds)
        except RuntimeError as error:
            print(json.dumps({"failed": str(error)[:600]}))
            continue
        name = command.replace(sys.executable, "python")
        figures = f"{cost.cpu_percent:.1f} | {cost.bytes_per_s:,.0f} | {cost.memory_mib:.0f}"
        print(f"| {name} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
