"""What measuring costs a step: in one process steps alternate bare, measured, bare (A/B/A').

    python benchmarks/observer_effect.py [MODEL] [CONTEXT] [ROUNDS] [MODE]

Prints the median wall time of each kind, the cost of B against A and A' with a bootstrap 95 %
interval, and the same for A' against A: what identical code differs by. The budget is
max(0.5 %, 100 µs) within that interval. Exit code 1 when it is exceeded.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import sys
import time

import msgspec
import torch

from llmprof.core.catalog.models import select_models
from llmprof.core.spec.case import Case
from llmprof.core.worker.clock import phase_clock
from llmprof.core.worker.environment import resolve
from llmprof.core.worker.job import Job
from llmprof.core.worker.request import WorkerRequest
from llmprof.core.worker.stepping import StepWriter
from llmprof.core.worker.trainer import Trainer

BUDGET_RELATIVE = 0.005
BUDGET_MS = 0.1
RESAMPLES = 2000


def main() -> int:
    """Run the rounds and print the table; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", nargs="?", default="small")
    parser.add_argument("context", nargs="?", type=int, default=512)
    parser.add_argument("rounds", nargs="?", type=int, default=100)
    parser.add_argument("mode", nargs="?", default="train")
    args = parser.parse_args()
    device = resolve("auto")
    case = msgspec.convert(
        {
            "model": msgspec.to_builtins(select_models([args.model])[0]),
            "context_length": args.context,
            "mode": args.mode,
        },
        Case,
    )
    trainer = Trainer(case, device)
    request = WorkerRequest(case=case, index=0, device=str(device), run_dir=".")
    job = Job(request, case, device, os.open(os.devnull, os.O_WRONLY))
    samples = collect(trainer, job, args.rounds)
    report(device, case, samples)
    cost, low, _ = difference(samples["B"], samples["A"] + samples["A'"])
    allowed = max(BUDGET_RELATIVE * statistics.median(samples["A"]), BUDGET_MS)
    noise = max(abs(edge) for edge in difference(samples["A'"], samples["A"]))
    ok = low <= allowed or cost <= noise
    print(f"budget {allowed:.3f} ms: {'kept' if ok else 'EXCEEDED'}")
    return 0 if ok else 1


def collect(trainer: Trainer, job: Job, rounds: int) -> dict[str, list[float]]:
    """Wall milliseconds of each kind of step, alternating."""
    clock, writer = phase_clock(job.device, job.case.phases), StepWriter(job)
    samples: dict[str, list[float]] = {"A": [], "B": [], "A'": []}
    gc.disable()
    for index in range(rounds + 5):
        for kind, values in samples.items():
            if kind == "B":
                clock.start()
                loss = trainer.step(clock.edge)
                times = clock.stop()
                writer.write(index, times, loss, warmup=False)
                wall = times.wall_ms
            else:
                wall = bare(trainer, job.device)
            if index >= 5:
                values.append(wall)
    return samples


def bare(trainer: Trainer, device: torch.device) -> float:
    """Wall milliseconds of a step that nothing looks into."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter_ns()
    trainer.step(_no_edge)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (time.perf_counter_ns() - start) / 1e6


def difference(later: list[float], earlier: list[float]) -> tuple[float, float, float]:
    """Difference of medians in milliseconds with its bootstrap 95 % interval."""
    random.seed(0)
    resampled = sorted(
        statistics.median(random.choices(later, k=len(later)))
        - statistics.median(random.choices(earlier, k=len(earlier)))
        for _ in range(RESAMPLES)
    )
    middle = statistics.median(later) - statistics.median(earlier)
    return middle, resampled[RESAMPLES // 40], resampled[-RESAMPLES // 40]


def report(device: torch.device, case: Case, samples: dict[str, list[float]]) -> None:
    """Print the table."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, {case.label}, {len(samples['A'])} rounds")
    for kind, values in samples.items():
        print(f"  {kind:<2} median {statistics.median(values):9.3f} ms")
    bare_steps = samples["A"] + samples["A'"]
    for label, (middle, low, high) in {
        "B - A": difference(samples["B"], bare_steps),
        "A' - A": difference(samples["A'"], samples["A"]),
    }.items():
        share = 100 * middle / statistics.median(bare_steps)
        print(f"  {label:<7}{middle:+8.3f} ms ({share:+.2f} %), 95 % [{low:+.3f}, {high:+.3f}] ms")


def _no_edge(index: int) -> None:
    pass


if __name__ == "__main__":
    sys.exit(main())
