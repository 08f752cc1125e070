"""First frame of the screen, and how soon a finished run of 100,000 events is open."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.screen_pty import Screen, Stream
from llmprof.core import events as ev

TRIES = 10
EVENTS = 100_000


def first_frame(home: Path) -> tuple[float, float]:
    """Milliseconds, and processor milliseconds, from the start to the first frame's last row."""
    screen = Screen(home)
    try:
        screen.read_until(b"Commands")
        return (time.perf_counter() - screen.started) * 1e3, screen.cpu_s() * 1e3
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
        frames_cpu = [first_frame(home) for _ in range(TRIES)]
        times = [wall for wall, _ in frames_cpu]
        cpu = statistics.median(cpu for _, cpu in frames_cpu)
        print(f"first frame: median {statistics.median(times):.0f} ms, best {min(times):.0f} ms, "
              f"worst {max(times):.0f} ms of {TRIES}; processor time {cpu:.0f} ms")  # fmt: skip
        run = finished_run(home)
        frames = [opened(home, run) for _ in range(3)]
        total = statistics.median(frames)
        print(f"a finished run of {EVENTS:,} events: {total:.0f} ms, "
              f"{total - statistics.median(times):.0f} ms beyond the first frame")  # fmt: skip


if __name__ == "__main__":
    main()
