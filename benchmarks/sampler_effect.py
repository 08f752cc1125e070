"""The sampler's effect on a training step: blocks without, with and without it, in one process.

The sampler process is stopped (SIGSTOP) during the blocks without it, so that nothing else
differs. Prints the cost of B against the mean of A and A', with the 95 % interval over rounds
(Student's t), beside what identical code differs by (A' against A).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import time
from collections.abc import Callable

import torch

from llmprof.core.devices.sampler_client import SamplerProcess
from llmprof.core.stats.student import student_t

# name: (layers, batch, context); the first is launch-bound on a fast card, the second is not
LOADS = {"launch-bound": (6, 4, 128), "GPU-bound": (4, 16, 512)}


def training_step(device: str, layers: int, batch: int, context: int) -> Callable[[], None]:
    """A transformer's whole training step, 768 wide."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    inputs = torch.randn(batch, context, 768, device=device)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return step


def block_ms(step: Callable[[], None], seconds: float) -> float:
    """Mean milliseconds of a step over a block: a mean, since stalls by the driver are rare."""
    start = time.perf_counter()
    count = 0
    while (now := time.perf_counter()) < start + seconds:
        step()
        count += 1
    return 1e3 * (now - start) / count


def compare(
    step: Callable[[], None], sampler: SamplerProcess, rounds: int, seconds: float
) -> dict[str, float]:
    """Cost of the sampler in percent and microseconds a step."""
    costs, drifts, plain = [], [], []
    assert sampler.pid is not None
    for _ in range(rounds):
        os.kill(sampler.pid, signal.SIGSTOP)
        before = block_ms(step, seconds)
        os.kill(sampler.pid, signal.SIGCONT)
        with_it = block_ms(step, seconds)
        os.kill(sampler.pid, signal.SIGSTOP)
        after = block_ms(step, seconds)
        os.kill(sampler.pid, signal.SIGCONT)
        sampler.read()
        bare = (before + after) / 2
        costs.append(100 * (with_it / bare - 1))
        drifts.append(100 * (after / before - 1))
        plain.append(bare)
    spread = student_t(rounds - 1) / math.sqrt(rounds)
    cost = statistics.fmean(costs)
    return {
        "step_ms": statistics.fmean(plain),
        "cost_percent": cost,
        "cost_ci95_percent": spread * statistics.stdev(costs),
        "cost_us": cost * 10 * statistics.fmean(plain),
        "identical_percent": statistics.fmean(drifts),
        "identical_ci95_percent": student_t(rounds - 1)
        * statistics.stdev(drifts)
        / math.sqrt(rounds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a block")
    parser.add_argument("--loads", default=",".join(LOADS), help="which, comma-separated")
    parser.add_argument("--interval", type=float, default=0.25)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    for load in options.loads.split(","):
        step = training_step(device, *LOADS[load])
        block_ms(step, 3.0)
        for activity in (False, True):
            sampler = SamplerProcess(options.interval, activity=activity)
            try:
                time.sleep(1.5)
                sampler.read()
                found = compare(step, sampler, options.rounds, options.seconds)
            finally:
                sampler.close()
            print(json.dumps({"device": name, "load": load, "activity": activity, **found}))
            print(
                f"{name}, {load}, step {found['step_ms']:.2f} ms, "
                f"{'with' if activity else 'without'} activity counters: "
                f"{found['cost_percent']:+.2f} ± {found['cost_ci95_percent']:.2f} % "
                f"({found['cost_us']:+.0f} µs a step); identical code "
                f"{found['identical_percent']:+.2f} ± {found['identical_ci95_percent']:.2f} %",
                flush=True,
            )


if __name__ == "__main__":
    main()
