"""Runs scripts that know nothing of llmprof under `llmprof watch`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from llmprof.core.store.journal import replay
from tests.builders.tracked_scripts import Told, newest
from tests.engine.runs import command

PRELUDE = """
import json, os, sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
torch.manual_seed(0)

class Hand:
    def __init__(self):
        self.rows, self.row, self.part, self.since = [], {}, "", 0
    def at(self, part):
        now = time.monotonic_ns()
        self.row[self.part] = self.row.get(self.part, 0.0) + (now - self.since) / 1e6
        self.part, self.since = part, now
    def end(self, part=""):
        self.at(part)
        self.rows.append(self.row)
        self.row = {}
    def tell(self, **more):
        print(json.dumps({"rows": self.rows, **more}))

hand = Hand()

def net(width=320):
    return torch.nn.Sequential(
        torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
    )

def loader(n, wait_s=0.0, width=320, **options):
    class Slow(TensorDataset):
        def __getitems__(self, which):
            time.sleep(wait_s)
            return [self[at] for at in which]
    return DataLoader(Slow(torch.randn(64 * n, width)), batch_size=64, **options)
"""


def run(
    home: Path,
    script: str,
    *,
    words: Sequence[str] = (),
    watched: bool = True,
    sampled: bool = False,
    env: Mapping[str, str] | None = None,
    launcher: Sequence[str] = (sys.executable,),
) -> subprocess.CompletedProcess[str]:
    """A script run to its end, by a launcher, under `llmprof watch` or without."""
    path = home / "train.py"
    path.write_text(PRELUDE + textwrap.dedent(script), "utf-8")
    given = [*launcher, str(path), *words]
    options = [] if sampled else ["--no-sampler"]
    before = command("watch", *options, "--") if watched else []
    return subprocess.run(
        [*before, *given],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "LLMPROF_HOME": str(home), "OMP_NUM_THREADS": "1", **(env or {})},
    )


def told(home: Path, script: str, env: Mapping[str, str] | None = None) -> Told:
    """A script that ends well, what it said last and what its run says."""
    done = run(home, script, env=env)
    assert done.returncode == 0, done.stderr
    found = newest(home)
    said = json.loads(done.stdout.splitlines()[-1])
    return Told(said, found, replay(found.journal), done.stderr)
