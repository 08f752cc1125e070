"""`python -m llmprof.core.engine`: waits for a plan on standard input, then runs it."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from llmprof.core.engine.loop import EngineRun
from llmprof.core.engine.signals import Signals
from llmprof.core.engine.workers import WorkerPool, redirect_output
from llmprof.core.launch import Plan
from llmprof.core.runs import Run


def main() -> int:
    """Exit code 0 after a run, whatever its outcome; 2 for a plan that cannot be run."""
    pool = WorkerPool()
    pool.warm()
    line = sys.stdin.buffer.readline()
    if not line.strip():
        return 0  # dismissed before it had a plan
    try:
        plan = msgspec.json.decode(line, type=Plan)
    except msgspec.DecodeError:
        return 2
    run = Run(Path(plan.run_dir))
    try:
        with run.lock():
            redirect_output(run.log)
            EngineRun(plan, run, pool, Signals()).run()
    except BlockingIOError:
        return 2  # another engine has this run
    return 0


if __name__ == "__main__":
    sys.exit(main())
