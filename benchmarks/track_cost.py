"""What llmprof.track costs a step, paired in one process: bare, tracked, bare again (A/B/A').

Usage: python benchmarks/track_cost.py [SIZE] [CONTEXT] [ROUNDS] [DEVICE]

A round is three blocks of three steps of one model. B is tracked, with hooks, logged loss, writer
and sampler; for A and A' the hooks are taken out of torch. Printed are the cost of B against A and
A' with its 95 % interval, the same of A' against A (what identical code differs by), and what the
hooks' own timers and calibrated calls say. Budgets: 50 µs of host time a step by those; the step's
change at most 0.5 % or 100 µs. Exit code 1 when one is exceeded.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import tempfile
import time

import torch
from torch import Tensor, nn

from llmprof.core.stats.student import student_t
from llmprof.core.store.journal import replay
from llmprof.core.store.run import RunStore
from llmprof.core.track.hooks import Hooks
from llmprof.core.track.tracked import Tracked, track

SIZES = {"tiny": (2, 128, 4), "small": (12, 768, 12), "medium": (24, 1024, 16)}
STEPS, WARM_ROUNDS = 3, 3
OWN_BUDGET_US = 50.0
BUDGET_RELATIVE, BUDGET_US = 0.005, 100.0


class Training:
    """One model, and the same steps of it bare or tracked; times in microseconds a step."""

    def __init__(self, size: str, context: int, device: str) -> None:
        depth, width, heads = SIZES[size]
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self._model = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False).to(device)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-4)
        self._batches = [torch.randn(4, context, width, device=device)] * STEPS
        self._device = device

    def step(self, x: Tensor) -> Tensor:
        """Forward, backward, update."""
        loss: Tensor = self._model(x).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._optimizer.zero_grad()
        return loss

    def bare(self) -> float:
        """A block without anything."""
        start = self._now_us()
        for x in self._batches:
            self.step(x)
        return (self._now_us() - start) / STEPS

    def tracked(self, run: Tracked) -> float:
        """The same block, tracked."""
        start = self._now_us()
        for x in run.steps(self._batches):
            run.log(loss=self.step(x))
        return (self._now_us() - start) / STEPS

    def _now_us(self) -> float:
        if self._device != "cpu":
            torch.cuda.synchronize()
        return time.perf_counter() * 1e6


def rounds(training: Training, run: Tracked, count: int) -> list[tuple[float, float, float]]:
    """A, B and A' of every round."""
    tracker = run._tracker
    hooks = run._hooks or Hooks(tracker)
    found = []
    for _ in range(WARM_ROUNDS + count):
        hooks.remove()
        before = training.bare()
        hooks = run._hooks = Hooks(tracker)
        within = training.tracked(run)
        hooks.remove()
        found.append((before, within, training.bare()))
    run._hooks = Hooks(tracker)
    return found[WARM_ROUNDS:]


def interval(values: list[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval (Student's t)."""
    mean = statistics.fmean(values)
    half = student_t(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - half, mean + half


def main(
    size: str = "small", context: str = "128", count: str = "120", device: str = "auto"
) -> int:
    """Run the rounds and print; the exit code."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    training = Training(size, int(context), device)
    training.bare()
    with tempfile.TemporaryDirectory(prefix="llmprof-cost-") as home:
        os.environ["LLMPROF_HOME"] = home
        with track("cost", announce=False) as run:
            assert isinstance(run, Tracked)
            found = rounds(training, run, int(count))
        (loop,) = replay(RunStore().find(None).journal).loops
    assert loop.beat is not None
    step = statistics.median(before for before, _, _ in found)
    cost = interval([b - (a + c) / 2 for a, b, c in found])
    alike = interval([c - a for a, _, c in found])
    name = torch.cuda.get_device_name() if device != "cpu" else "CPU"
    print(f"{name}, {size}, context {context}: a step takes {step / 1000:.2f} ms")
    print("tracked:        {:+.0f} µs a step, 95 % [{:+.0f}, {:+.0f}]".format(*cost))
    print("identical code: {:+.0f} µs a step, 95 % [{:+.0f}, {:+.0f}]".format(*alike))
    print(f"hooks' own timers and calls: {loop.beat.own_us:.1f} µs a step")
    allowed = max(BUDGET_RELATIVE * step, BUDGET_US)
    noise = max(abs(alike[1]), abs(alike[2]))
    kept = (cost[1] <= allowed or cost[0] <= noise) and loop.beat.own_us <= OWN_BUDGET_US
    print(f"budgets {allowed:.0f} and {OWN_BUDGET_US:.0f} µs: {'kept' if kept else 'EXCEEDED'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
