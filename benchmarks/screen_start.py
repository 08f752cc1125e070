"""First frame of the screen, and how soon a finished run of 100,000 events is open.

The frame is measured in turns with that of a minimal Textual app on the same machine.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from in_turns import HERE
from screen_pty import Screen, Stream

from llmprof.core import events as ev

OURS = ("-m", "llmprof")
MINIMAL = (str(Path(__file__).with_name("minimal_app.py")),)
EVENTS = 100_000


def first_frame(
    home: Path, program: tuple[str, ...] = OURS, tree: Path = HERE
) -> tuple[float, float]:
    """Milliseconds, and processor milliseconds, from the start to the first frame's last row."""
    screen = Screen(home, program=program, tree=tree)
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


def _said(what: str, frames: list[tuple[float, float]]) -> list[float]:
    """Say how long frames took; their wall times."""
    times, cpus = [wall for wall, _ in frames], [cpu for _, cpu in frames]
    print(f"{what}: median {statistics.median(times):.0f} ms, best {min(times):.0f} ms, "
          f"worst {max(times):.0f} ms of {len(times)}; "
          f"processor time {statistics.median(cpus):.0f} ms")  # fmt: skip
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        first_frame(home)  # compiles what is not compiled yet
        pairs = [(first_frame(home), first_frame(home, MINIMAL)) for _ in range(args.tries)]
        times = _said("first frame", [ours for ours, _ in pairs])
        _said("a minimal app", [least for _, least in pairs])
        walls, cpus = (sorted(ours[of] / least[of] for ours, least in pairs) for of in (0, 1))
        print(f"ratio of each pair: median {statistics.median(walls):.2f} "
              f"({walls[0]:.2f} to {walls[-1]:.2f}), "
              f"of processor time {statistics.median(cpus):.2f}")  # fmt: skip
        run = finished_run(home)
        frames = [opened(home, run) for _ in range(3)]
        total = statistics.median(frames)
        print(f"a finished run of {EVENTS:,} events: {total:.0f} ms, "
              f"{total - statistics.median(times):.0f} ms beyond the first frame")  # fmt: skip


if __name__ == "__main__":
    main()
