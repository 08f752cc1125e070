"""What the live screen costs: processor, bytes, key latency, memory, at 120 x 30 and 4 Hz.

`python benchmarks/screen_load.py [--seconds 20] [--minutes 10] [--only live]`; the last
part compares minute ten of a stream with minute one, and runs when --minutes is given.
`--against PATH` runs each part in turns with the screen of the tree of llmprof at that path.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from in_turns import HERE
from screen_pty import Screen, Stream

KEYS = 100


@contextmanager
def streaming(stream: Stream, steps_per_s: float, samples_per_s: float = 4.0) -> Iterator[None]:
    """Write steps and samples at a pace from a thread."""
    stop = threading.Event()

    def write() -> None:
        start, steps, samples = time.monotonic(), 0, 0
        while not stop.wait(0.005):
            gone = time.monotonic() - start
            for _ in range(int(gone * steps_per_s) - steps):
                stream.step()
                steps += 1
            for _ in range(int(gone * samples_per_s) - samples):
                stream.sample()
                samples += 1

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def live(home: Path, tree: Path, seconds: float) -> None:
    stream = Stream(home)
    for _ in range(30):
        stream.step()
    screen = Screen(home, "screen", stream.run.id, tree=tree)
    try:
        screen.read_until(b"tokens/s")
        with streaming(stream, 10.0):
            screen.watch(3.0)
            cpu, rate = screen.watch(seconds)
            print(f"live, 10 steps/s: {cpu:.1f} % of a core, {rate / 1000:.1f} kB/s")
            screen.send(b" ")
            screen.watch(2.0)
            cpu, rate = screen.watch(seconds / 2)
            print(f"paused, run going on: {cpu:.1f} % of a core, {rate:.0f} B/s")
            screen.send(b" ")
        screen.watch(2.0)
        cpu, rate = screen.watch(seconds / 2)
        print(f"nothing changes: {cpu:.1f} % of a core, {rate:.0f} B/s")
    finally:
        screen.close()
        stream.close()


def latency(home: Path, tree: Path) -> None:
    """Time from a key to the first byte of its answer, with 1,000 events a second streaming."""
    stream = Stream(home)
    for _ in range(30):
        stream.step()
    screen = Screen(home, "screen", stream.run.id, "--refresh", "4", tree=tree)
    times = []
    try:
        screen.read_until(b"tokens/s")
        with streaming(stream, 1000.0):
            cpu, rate = screen.watch(5.0)
            print(f"live, 1,000 events/s: {cpu:.1f} % of a core, {rate / 1000:.1f} kB/s")
            screen.send(b"o")  # an arrow marks the sorted column; O turns it round
            screen.read_until("▲".encode())
            for n in range(KEYS):
                screen.watch(0.05 + 0.013 * (n % 11))
                screen.send(b"O")
                times.append(screen.read_until("▲▼"[1 - n % 2].encode()))
    finally:
        screen.close()
        stream.close()
    times.sort()
    p50, p99 = times[KEYS // 2], times[int(KEYS * 0.99) - 1]
    print(f"key to answer, 1,000 events/s: p50 {p50 * 1e3:.0f} ms, p99 {p99 * 1e3:.0f} ms, "
          f"worst {times[-1] * 1e3:.0f} ms of {KEYS}")  # fmt: skip


def memory(home: Path, tree: Path, steps: int) -> None:
    """Resident bytes a step, for steps that come at 10,000 a second."""
    stream = Stream(home)
    screen = Screen(home, "screen", stream.run.id, tree=tree)
    try:
        held = 0
        for part in range(3):  # the first part fills caches and is not counted
            for _ in range(0, steps, 100):
                for _ in range(100):
                    stream.step()
                screen.watch(0.01)
            screen.watch(4.0)
            now = screen.resident_bytes()
            if part:
                print(f"memory: {(now - held) / steps:.0f} bytes a step over {steps:,} steps, "
                      f"{stream.index:,} in all")  # fmt: skip
            held = now
    finally:
        screen.close()
        stream.close()


def endurance(home: Path, tree: Path, minutes: int) -> None:
    """Minute by minute, in real time: 100 steps and 4 samples a second."""
    stream = Stream(home)
    screen = Screen(home, "screen", stream.run.id, tree=tree)
    try:
        with streaming(stream, 100.0):
            for minute in range(1, minutes + 1):
                cpu, rate = screen.watch(60.0)
                print(f"minute {minute}: {cpu:.1f} % of a core, {rate / 1000:.1f} kB/s, "
                      f"{screen.resident_bytes() / 2**20:.1f} MiB, {stream.index:,} steps",
                      flush=True)  # fmt: skip
    finally:
        screen.close()
        stream.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--minutes", type=int, default=0)
    parser.add_argument("--against", type=Path, metavar="PATH", help="another tree of llmprof")
    parser.add_argument("--only", choices=("live", "latency", "memory", "endurance"))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        parts: dict[str, Callable[[Path, Path], None]] = {
            "live": partial(live, seconds=args.seconds),
            "latency": latency,
            "memory": partial(memory, steps=args.steps),
            "endurance": partial(endurance, minutes=args.minutes),
        }
        trees = (HERE,) if args.against is None else (HERE, args.against.resolve())
        for name, part in parts.items():
            if args.only in (None, name) and (name != "endurance" or args.minutes):
                for tree in trees:
                    if len(trees) > 1:
                        print(f"{'this tree' if tree == HERE else tree}:")
                    part(home, tree)


if __name__ == "__main__":
    main()
