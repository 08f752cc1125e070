"""A day of a tracked loop, generated: size of its files, time to open, memory of who opens it.

`python benchmarks/track_day.py [--rate 10] [--hours 24] [--folder DIR]`: steps at a steady rate
through the same code that writes a real loop's file, a beat every two seconds, and samples of one
card as the sampler's thread thins them. Budgets: 50 MB, 2 s.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from llmprof.core import events as ev
from llmprof.core.store.journal import JournalWriter, replay
from llmprof.core.store.run import Run, RunStore
from llmprof.core.track.batches import Batches
from llmprof.core.track.parts import Mark
from llmprof.core.track.samples import THINNED_S, WHOLE_S
from llmprof.core.track.tracker import Row
from llmprof.core.track.writer import FLUSH_S, ROLLED_FLUSH_S

SECOND = 10**9
PARTS = (("input", 0.1), ("", 0.3), ("backward", 0.4), ("", 0.02), ("optimizer", 0.15), ("", 0.03))
METRICS = ("utilization", "memory_used", "memory_total", "power", "power_limit", "temperature",
           "sm_clock", "memory_clock", "energy", "fan", "pcie_tx", "pcie_rx")  # fmt: skip


def step(index: int, start_ns: int, wall_ns: int, noise: random.Random) -> Row:
    """One step of about a wall time, cut into parts, with a loss."""
    marks: list[Mark] = []
    t = start_ns
    for part, share in PARTS:
        marks.append((t, part, None))
        t += int(wall_ns * share * noise.uniform(0.97, 1.03))
    row = Row(index, index // 10_000, marks, t)
    row.values["loss"] = 2 + 8 / (1 + index / 1000) + noise.gauss(0, 0.05)
    return row


def sample(t: int, noise: random.Random) -> ev.DeviceSample:
    """One card and the host."""
    metrics = {name: ev.Metric(round(noise.uniform(0, 1e5), 1)) for name in METRICS}
    card = ev.CardSample(index=0, uuid="GPU-1", name="NVIDIA H200", metrics=metrics)
    return ev.DeviceSample(t=t, host=ev.HostSample(cpu_percent=20.0), cards=(card,), cost_ms=1.0)


def write_loop(run: Run, rate: float, seconds: float) -> int:
    """The steps' file; how many steps it is of."""
    noise = random.Random(1)
    journal, batches = JournalWriter(run.journal), Batches(0, 0)
    journal.append(ev.Segment(t=SECOND, boot_id="b", wall_ns=SECOND, pid=1, version="0"))
    journal.append(ev.LoopStarted(t=SECOND, run_id=run.id, label="day"))
    t, index, flushed, beat = SECOND, 0, SECOND, SECOND
    end, waiting = SECOND + int(seconds * SECOND), list[Row]()
    while t < end:
        row = step(index, t, int(SECOND / rate), noise)
        waiting.append(row)
        t, index = row.end_ns, index + 1
        period = ROLLED_FLUSH_S if batches.rolled_up else FLUSH_S
        if t - flushed > period * SECOND:
            flushed = t
            lines = [ev.encode(event) for event in batches.events(waiting)]
            waiting.clear()
            if t - beat > 2 * SECOND:
                beat = t
                lines.append(ev.encode(ev.LoopBeat(t=t, part="backward", since_ns=t, index=index)))
            journal.append_lines(b"".join(lines))
    for event in batches.events(waiting, last=True):
        journal.append(event)
    journal.append(ev.LoopDone(t=t, outcome="complete"))
    journal.close()
    return index


def write_samples(run: Run, seconds: float) -> None:
    """The samples' file, as thin as a real one."""
    noise = random.Random(2)
    journal = JournalWriter(run.path / "devices-0.jsonl")
    journal.append(ev.Segment(t=SECOND, boot_id="b", wall_ns=SECOND, pid=1, version="0"))
    at = 0.0
    while at < seconds:
        journal.append(sample(SECOND + int(at * SECOND), noise))
        at += 1.0 if at < WHOLE_S else THINNED_S
    journal.close()


def open_it(journal: str) -> None:
    """In a process of its own: seconds to open, and the memory that it took."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    view = replay(Path(journal))
    took = time.perf_counter() - start
    (loop,) = view.loops
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"opened in {took:.2f} s: {loop.steps:,} steps in {len(loop.rows):,} rows, "
          f"{view.damaged_lines} damaged, {grown:.0f} MiB")  # fmt: skip


def main() -> None:
    """Generate, then open three times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=10.0, help="steps a second (10)")
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--open", help="a journal to open")
    args = parser.parse_args()
    if args.open:
        open_it(args.open)
        return
    with tempfile.TemporaryDirectory(prefix="llmprof-day-") as folder:
        run = RunStore(Path(folder)).create("day")
        steps = write_loop(run, args.rate, args.hours * 3600)
        write_samples(run, args.hours * 3600)
        files = sorted(run.path.glob("*.jsonl"))
        sizes = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in files)
        whole = sum(path.stat().st_size for path in files)
        print(f"{steps:,} steps at {args.rate:g}/s: {whole / 1e6:.1f} MB ({sizes})")
        for _ in range(3):
            subprocess.run([sys.executable, __file__, "--open", str(run.journal)], check=True)


if __name__ == "__main__":
    main()
