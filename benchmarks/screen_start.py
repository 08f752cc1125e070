"""First frame of the screen, and how soon a finished run of 100,000 events is open."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from llmprof.core import events as ev
from screen_pty import Screen, Stream

TRIES = 10
EVENTS = 100_000


def first_frame(home: Path) -> float:
    """Milliseconds from starting the process to the last row of the first frame."""
    screen = Screen(home)
    try:
        screen.read_until(b"Commands")
        return (time.perf_counter() - screen.started) * 1e3
    finally:
        screen.close()


def opened(home: Path, run: str) -> float:
    """Milliseconds from starting the process until the run's figures stand there."""
    screen = Screen(home, "screen", run)
    try:
        screen.read_until(b"finished")
        return (time.perf_counter() - screen.started) * 1e3
    finally:
        screen.close()


def finished_run(home: Path) -> str:
    stream = Stream(home, EVENTS - 10)
    t = time.monotonic_ns()
    for n in range(EVENTS - 10):
        t += 10_000_000
        stream.step(t) if n % 20 else stream.sample(t)
    stream.put(ev.CaseDone(t=t, case=0))
    stream.put(ev.RunDone(t=t, outcome="complete"))
    stream.close()
    return stream.run.id


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        times = [first_frame(home) for _ in range(TRIES)]
        print(f"first frame: median {statistics.median(times):.0f} ms, best {min(times):.0f} ms, "
              f"worst {max(times):.0f} ms of {TRIES}")  # fmt: skip
        run = finished_run(home)
        frames = [opened(home, run) for _ in range(3)]
        print(f"a finished run of {EVENTS:,} events: {statistics.median(frames):.0f} ms, of which "
              f"{statistics.median(frames) - statistics.median(times):.0f} ms beyond the first frame")  # fmt: skip


if __name__ == "__main__":
    main()
