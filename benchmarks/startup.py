"""Start-up: `llmprof --help`, and llmprof's own part of a fresh process a case.

    python benchmarks/startup.py
    python benchmarks/startup.py --against ../before --pairs 15

The own part is from the engine's asking for a process to the worker's reaching its probe; the
CUDA context and building the model are reported beside it. Medians; exit code 1 over budget.

With --against, `llmprof --help`, `llmprof presets` and the screen's first frame of this tree and
of the one at that path are measured in turns instead, as processor time and as waiting.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from in_turns import Cost, compare, variables_of
from screen_start import first_frame

from llmprof.core.catalog.experiments import build_experiment
from llmprof.core.engine.client import Engine, Plan
from llmprof.core.store.journal import replay
from llmprof.core.store.run import RunStore

HELP_BUDGET_MS = 150.0
OWN_BUDGET_MS = 100.0


def main() -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--against", type=Path, metavar="PATH", help="another tree of llmprof")
    parser.add_argument("--pairs", type=int, default=15)
    args = parser.parse_args()
    if args.against is not None:
        with tempfile.TemporaryDirectory() as folder:
            against(args.against.resolve(), args.pairs, Path(folder))
        return 0
    help_ms = statistics.median(_help_ms() for _ in range(15))
    print(f"llmprof --help: {help_ms:.0f} ms (budget {HELP_BUDGET_MS:.0f})")
    with tempfile.TemporaryDirectory() as folder:
        own = own_parts(Path(folder))
    middle = statistics.median(own)
    print(f"own part of a fresh process: {middle:.1f} ms (budget {OWN_BUDGET_MS:.0f})")
    return 0 if help_ms <= HELP_BUDGET_MS and middle <= OWN_BUDGET_MS else 1


def against(other: Path, pairs: int, home: Path) -> None:
    """Print what starting costs in this tree and in another."""

    def command(word: str, tree: Path) -> Cost:
        used, start = _used_s(), time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "llmprof", word],
            check=True, stdout=subprocess.DEVNULL, cwd=home,
            env={**variables_of(tree), "LLMPROF_HOME": str(home)},
        )  # fmt: skip
        return 1e3 * (_used_s() - used), 1e3 * (time.perf_counter() - start)

    def frame(tree: Path) -> Cost:
        wall, cpu = first_frame(home, tree=tree)
        return cpu, wall

    commands = {f"llmprof {word}": partial(command, word) for word in ("--help", "presets")}
    compare({**commands, "first frame": frame}, other, pairs)


def own_parts(folder: Path) -> list[float]:
    """Own milliseconds of each worker of a run of eight small cases."""
    overrides = {
        "models": ["tiny"],
        "modes": ["forward"],
        "context_lengths": [16, 24, 32, 40, 48, 56, 64, 72],
        "measure_steps": 2,
        "warmup_steps": [1],
    }
    run = RunStore(folder).create("startup")
    engine = Engine()
    experiment = build_experiment("end-to-end", overrides)
    engine.run(Plan(run_dir=str(run.path), experiment=experiment, lifeline=True))
    engine.wait()
    engine.dismiss()
    view = replay(run.journal)
    if view.environment is not None:
        print(f"{view.environment.device_name}, torch {view.environment.torch}")
    built = [state.model for state in view.cases if state.model is not None]
    context = [model.context_ms for model in built if model.context_ms is not None]
    if context:
        print(f"CUDA context beside it: {statistics.median(context):.0f} ms")
    firsts = [state.warmup.row(0).wall_ms for state in view.cases if len(state.warmup)]
    print(f"first step beside it: {statistics.median(firsts):.0f} ms")
    return [model.own_ms for model in built if model.own_ms is not None]


def _used_s() -> float:
    """Processor seconds of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _help_ms() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "llmprof", "--help"], check=True, capture_output=True)
    return 1e3 * (time.perf_counter() - start)


if __name__ == "__main__":
    sys.exit(main())
