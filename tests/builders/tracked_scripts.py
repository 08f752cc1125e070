"""Runs training scripts in processes of their own and reads what was journalled of them."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmprof.core.state.loops import LoopState
from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run, RunStore

# Timers by hand: hand.at("forward") ends what was before and begins a forward.
PRELUDE = """
import json, os, sys, time
import torch
import llmprof
torch.set_num_threads(1)
torch.manual_seed(0)

class Hand:
    def __init__(self):
        self.rows = []
    def begin(self, part):
        self.row, self.part, self.since = {}, part, time.monotonic_ns()
    def at(self, part):
        now = time.monotonic_ns()
        self.row[self.part] = self.row.get(self.part, 0.0) + (now - self.since) / 1e6
        self.part, self.since = part, now
    def end(self):
        self.at("")
        self.rows.append(self.row)
    def tell(self, **more):
        print(json.dumps({"rows": self.rows, **more}))

hand = Hand()

def track(label, **options):
    return llmprof.track(label, **{"sample_devices": False, **options})

def net(width=320):
    return torch.nn.Sequential(
        torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
    )

def batches(n, wait_s=0.0, width=320):
    for _ in range(n):
        time.sleep(wait_s)
        yield torch.randn(64, width)

# Has the thread of a run stand between two looks, where nothing is open that it will close; gives
# what lets it go on.
def rest(run):
    import threading
    stands, on, stop = threading.Event(), threading.Event(), run._writer._stop
    wait = stop.wait
    def standing(seconds):
        stands.set()
        on.wait()
        return wait(seconds)
    stop.wait = standing
    stands.wait()
    return on

def busy(ms):
    end = time.monotonic_ns() + ms * 1e6
    while time.monotonic_ns() < end:
        pass
"""


@dataclass
class Told:
    """What a script printed at its end, and what its run says."""

    said: dict[str, Any]
    run: Run
    view: RunView
    errors: str

    @property
    def loop(self) -> LoopState:
        """Its only rank."""
        (loop,) = self.view.loops
        return loop


def start(
    home: Path, script: str, arguments: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """A script begun, with the prelude before it."""
    path = home / "train.py"
    home.mkdir(exist_ok=True)
    path.write_text(PRELUDE + textwrap.dedent(script), "utf-8")
    return subprocess.Popen(
        [sys.executable, str(path), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "LLMPROF_HOME": str(home), "OMP_NUM_THREADS": "1", **(env or {})},
    )


def told(home: Path, script: str, env: Mapping[str, str] | None = None) -> Told:
    """A script run to its end, which must be a good one."""
    process = start(home, script, env=env)
    output, errors = process.communicate(timeout=110)
    assert process.returncode == 0, errors
    run = newest(home)
    return Told(json.loads(output.splitlines()[-1]), run, replay(run.journal), errors)


def newest(home: Path) -> Run:
    """The run that a script made last."""
    return RunStore(home / "runs").find(None)


def agree(
    found: Told, parts: Sequence[str], skip: int = 3, at: Sequence[int] | None = None
) -> None:
    """Every part against timers by hand: within 5 % or 0.1 ms in the median step.

    Both clocks are read one after the other, so that a busy machine hits both, but for an
    interruption in between: hence the median, of the steps `at` where not all have the parts.
    """
    rows = found.loop.rows
    hand = found.said["rows"]
    assert len(rows) == len(hand)
    looked = range(skip, len(hand)) if at is None else at
    for part in parts:
        ours = [rows.part_ms(part)[each] for each in looked]
        theirs = [hand[each].get(part, 0.0) for each in looked]
        apart = statistics.median(abs(a - b) for a, b in zip(ours, theirs, strict=True))
        size = statistics.median(theirs)
        assert apart <= max(0.05 * size, 0.1), f"{part}: {apart:.3f} ms of {size:.3f} ms"
