"""Watch a run on the screen in a pty and keep what was seen: text and SVG frames.

    python benchmarks/watch_screen.py OUT_FOLDER [SECONDS] [COLUMNS] [ROWS] [KEYS]

KEYS are sent one a second once the first frame is there ("r" runs what is ticked). The frames
are what a terminal showed, so they hold for colours, encodings and narrow places too.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
import pty
import select
import struct
import sys
import termios
import time
from pathlib import Path

import pyte
from rich.console import Console
from rich.text import Text

ALIASES = {"brown": "yellow", "brightbrown": "bright_yellow"}


def main() -> int:
    """Run the screen for a while; write frame-NN.txt and .svg; the exit code of the screen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("seconds", nargs="?", type=float, default=30)
    parser.add_argument("columns", nargs="?", type=int, default=120)
    parser.add_argument("rows", nargs="?", type=int, default=30)
    parser.add_argument("keys", nargs="?", default="r")
    args = parser.parse_args()
    out, keys, width, height = args.folder, args.keys, args.columns, args.rows
    out.mkdir(parents=True, exist_ok=True)
    pid, fd = pty.fork()
    if pid == 0:
        os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
        os.execvp(sys.executable, [sys.executable, "-m", "llmprof"])
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    screen = pyte.Screen(width, height)
    stream = pyte.ByteStream(screen)
    start = time.monotonic()
    typed, kept = 0, 0
    while (now := time.monotonic() - start) < args.seconds:
        _read(fd, stream)
        if typed < len(keys) and now > 3 + typed:
            os.write(fd, keys[typed].encode())
            typed += 1
        if now > 5 * (kept + 1):
            kept += 1
            _keep(screen, out / f"frame-{kept:02d}", width)
    os.close(fd)  # a lost connection leaves the run alone
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _read(fd: int, stream: pyte.ByteStream) -> None:
    ready, _, _ = select.select([fd], [], [], 0.1)
    if ready:
        try:
            stream.feed(os.read(fd, 1 << 16))
        except OSError:
            time.sleep(0.1)


def _keep(screen: pyte.Screen, path: Path, width: int) -> None:
    path.with_suffix(".txt").write_text("\n".join(screen.display), "utf-8")
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    for row in range(screen.lines):
        line = Text()
        for column in range(screen.columns):
            cell = screen.buffer[row][column]
            style = f"{_colour(cell.fg)} on {_colour(cell.bg)}"
            line.append(cell.data or " ", ("bold " if cell.bold else "") + style)
        console.print(line, end="\n", no_wrap=True, overflow="crop")
    path.with_suffix(".svg").write_text(console.export_svg(title="llmprof"), "utf-8")


def _colour(name: str) -> str:
    if len(name) == 6 and all(c in "0123456789abcdefABCDEF" for c in name):
        return f"#{name}"
    return ALIASES.get(name, name.replace("bright", "bright_"))


if __name__ == "__main__":
    sys.exit(main())
