"""Runs experiments on a lent card in resumable pieces, each piece a call of bounded length.

    python benchmarks/gpu_experiments.py OUT --before FOLDER --seconds 480 warmup precision

An experiment that FOLDER holds as NAME.llmprof is resumed, any other is begun; what the time did
not suffice for is packed into OUT as it stands, and the next call goes on from there. An
experiment may be followed by options in quotes: "attention --d-model 64". Needs llmprof and torch.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from llmprof.core.figures.outcomes import to_resume
from llmprof.core.store.journal import replay
from llmprof.core.store.pack import open_view, pack
from llmprof.core.store.run import RunStore

SHORTEST_S = 15.0  # a piece that is not worth starting


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("out", type=Path, help="folder for the packed runs")
    parser.add_argument("experiments", nargs="+", help="names, each with options of its own")
    parser.add_argument("--before", type=Path, help="folder of packed runs to go on with")
    parser.add_argument("--seconds", type=float, default=480.0, help="for all of them together")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + args.seconds
    for line in args.experiments:
        words = shlex.split(line)
        left = deadline - time.monotonic()
        if left < SHORTEST_S:
            print(f"{words[0]}: no time left", flush=True)
            continue
        piece(words, args.before, args.out, left)
    return 0


def piece(words: list[str], before: Path | None, out: Path, seconds: float) -> None:
    name = "-".join(word.lstrip("-").replace(",", "_") for word in words)
    earlier = None if before is None else before / f"{name}.llmprof"
    command = ["run", *words, "--export", str(out / "last.json")]
    if earlier is not None and earlier.is_file():
        if not to_resume(open_view(earlier)):
            print(f"{name}: complete already", flush=True)
            return
        command = ["resume", str(earlier), "--elsewhere", "--export", str(out / "last.json")]
    started = time.monotonic()
    code = bounded([sys.executable, "-m", "llmprof", *command], seconds)
    (out / "last.json").unlink(missing_ok=True)
    run = RunStore().find("last")
    pack(run, out / f"{name}.llmprof")
    view = replay(run.journal)
    missing = len(to_resume(view))
    took = time.monotonic() - started
    print(f"{name}: exit {code} after {took:.0f} s, {missing} of {len(view.cases)} cells missing")
    for state in view.cases:
        if state.status == "error" and state.failure is not None:
            print(f"  {state.case.label}: {state.failure.message}")
    sys.stdout.flush()


def bounded(command: list[str], seconds: float) -> int:
    """Exit code of a command that is interrupted, as by Ctrl-C, when its time is over."""
    process = subprocess.Popen(command)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        return process.wait(60)


if __name__ == "__main__":
    sys.exit(main())
