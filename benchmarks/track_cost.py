"""What llmprof.track costs a step, paired in one process: bare, tracked, bare again (A/B/A').

Usage: python benchmarks/track_cost.py [--size S] [--context N] [--rounds N] [--device D]

A round is three blocks of three steps of one model. B is tracked, with hooks, logged loss, writer
and sampler; for A and A' the hooks are taken out of torch. Printed are the cost of B against A and
A' with its 95 % interval (medians), the same of A' against A (what identical code differs by), and
what the hooks' own timers and calibrated calls say of a loop without such blocks, in which logged
values may be fetched together. Budgets: 50 µs of host time a step by those; the step's change at
most 0.5 % or 100 µs. Exit code 1 when one is exceeded.

Where TraceML is installed (pip install traceml-ai; `traceml serve` beside it), a fourth block of
every round runs under its trace_step.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn

from llmprof.core.store.journal import replay
from llmprof.core.store.run import RunStore
from llmprof.core.track.hooks import Hooks, call_overhead_us
from llmprof.core.track.tracked import Tracked, track

SIZES = {
    "tiny": (2, 128, 4),
    "small": (12, 768, 12),
    "medium": (24, 1024, 16),
}  # depth, width, heads
STEPS, WARM_ROUNDS = 3, 3  # of a block timed, after one that is not
OWN_STEPS, OWN_S = 320, 15.0  # at most, of the loop in which our own time is taken
OWN_BUDGET_US = 50.0
BUDGET_RELATIVE, BUDGET_US = 0.005, 100.0


class Training:
    """One model, and the same steps of it bare or tracked; times in microseconds a step."""

    def __init__(self, size: str, context: int, device: str) -> None:
        depth, width, heads = SIZES[size]
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
        self._model = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False).to(device)
        self._optimizer = torch.optim.AdamW(self._model.parameters(), lr=1e-4)
        self._batches = [torch.randn(4, context, width, device=device)] * (STEPS + 1)
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
        self.step(self._batches[0])
        start = self._now_us()
        for x in self._batches[1:]:
            self.step(x)
        return (self._now_us() - start) / STEPS

    def tracked(self, run: Tracked) -> float:
        """The same block, tracked."""
        turns = iter(run.steps(self._batches))
        run.log(loss=self.step(next(turns)))
        start = self._now_us()
        for x in turns:
            run.log(loss=self.step(x))
        return (self._now_us() - start) / STEPS

    def loop(self, run: Tracked, steps: int) -> None:
        """Tracked, as a training is."""
        for x in run.steps(self._batches[:1] * steps):
            run.log(loss=self.step(x))

    def rival(self, trace_step: Callable[[nn.Module], AbstractContextManager[None]]) -> float:
        """The same block under another tool's context."""
        start = 0.0
        for at, x in enumerate(self._batches):
            start = self._now_us() if at == 1 else start
            with trace_step(self._model):
                self.step(x)
        return (self._now_us() - start) / STEPS

    def _now_us(self) -> float:
        if self._device != "cpu":
            torch.cuda.synchronize()
        return time.perf_counter() * 1e6


def find_rival() -> Callable[[nn.Module], AbstractContextManager[None]] | None:
    """TraceML's trace_step with its hooks installed; None where it is not there."""
    if importlib.util.find_spec("traceml_ai") is None:
        return None
    os.chdir(tempfile.mkdtemp(prefix="traceml-"))  # it writes its logs where it stands
    traceml = importlib.import_module("traceml_ai")
    traceml.init(mode="auto")
    found: Callable[[nn.Module], AbstractContextManager[None]] = traceml.trace_step
    return found


def rounds(training: Training, run: Tracked, count: int) -> list[tuple[float, ...]]:
    """A, B and A' of every round, and the rival's block where there is one."""
    trace_step = find_rival()
    tracker = run._tracker
    hooks = run._hooks or Hooks(tracker)
    found = []
    for _ in range(WARM_ROUNDS + count):
        hooks.remove()
        before = training.bare()
        hooks = run._hooks = Hooks(tracker)
        within = training.tracked(run)
        hooks.remove()
        after = training.bare()
        rival = () if trace_step is None else (training.rival(trace_step),)
        found.append((before, within, after, *rival))
    run._hooks = Hooks(tracker)
    return found[WARM_ROUNDS:]


def own_us(training: Training, run: Tracked, step_us: float) -> float:
    """Our own time a step of a loop that nothing interrupts, by timers and calibrated calls."""
    tracker, writer = run._tracker, run._writer
    assert writer is not None
    count = max(20, min(OWN_STEPS, int(OWN_S * 1e6 / step_us)))
    training.loop(run, count // 3)
    tracker.own_ns = tracker.own_steps = tracker.calls = tracker.steps = 0
    training.loop(run, count)
    return tracker.own_us(writer.call_us)


def host_costs(device: str) -> str:
    """What this host takes for what tracking is made of, medians in microseconds.

    Hosts differ by ten times: a figure of one says little without them.
    """
    costs = {"clock": median_us(time.monotonic_ns), "hook": call_overhead_us()}
    if device != "cpu":
        event: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        x = torch.zeros(1, device=device)
        pinned = torch.zeros(1, pin_memory=True)
        costs["event"] = median_us(event.record)
        costs["query"] = median_us(event.query)
        costs["launch"] = median_us(lambda: x.add_(1))
        costs["copy"] = median_us(lambda: pinned.copy_(x, non_blocking=True))
    return ", ".join(f"{name} {cost:.2f}" for name, cost in costs.items())


def median_us(call: Callable[[], object], rounds: int = 300) -> float:
    """The median time of a call, microseconds; the clock's own is in it."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1000


def interval(values: list[float]) -> tuple[float, float, float]:
    """Median and its 95 % interval by order statistics: interruptions are far beyond both."""
    ordered = sorted(values)
    middle, half = len(ordered) / 2, 0.98 * math.sqrt(len(ordered))
    low, high = max(0, math.floor(middle - half)), min(len(ordered) - 1, math.ceil(middle + half))
    return statistics.median(ordered), ordered[low], ordered[high]


def main() -> int:
    """Run the rounds and print; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--context", type=int, default=128, help="tokens")
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    size, context, device = args.size, args.context, args.device
    training = Training(size, context, device)
    training.bare()
    with tempfile.TemporaryDirectory(prefix="llmprof-cost-") as home:
        os.environ["LLMPROF_HOME"] = home
        with track("cost", announce=False) as run:
            assert isinstance(run, Tracked)
            found = rounds(training, run, args.rounds)
            step = statistics.median(block[0] for block in found)
            own = own_us(training, run, step)
        (loop,) = replay(RunStore().find(None).journal).loops
    assert loop.beat is not None
    cost = interval([b - (a + c) / 2 for a, b, c, *_ in found])
    alike = interval([c - a for a, _, c, *_ in found])
    name = torch.cuda.get_device_name() if device != "cpu" else "CPU"
    print(f"{name}, {size}, context {context}: a step takes {step / 1000:.2f} ms")
    print("tracked:        {:+.0f} µs a step, 95 % [{:+.0f}, {:+.0f}]".format(*cost))
    print("identical code: {:+.0f} µs a step, 95 % [{:+.0f}, {:+.0f}]".format(*alike))
    if len(found[0]) > 3:
        rival = interval([r - (a + c) / 2 for a, _, c, r in found])
        print("under TraceML:  {:+.0f} µs a step, 95 % [{:+.0f}, {:+.0f}]".format(*rival))
    print(f"this host takes, in µs: {host_costs(device)}")
    print(f"hooks' own timers and calls: {own:.1f} µs a step ({loop.beat.own_us:.1f} in all)")
    card = run._card
    if card is not None:
        values = "fetched together" if card.together else "copied at once"
        print(f"on the card one step in {card.every} was timed, logged values were {values}")
    allowed = max(BUDGET_RELATIVE * step, BUDGET_US)
    noise = max(abs(alike[1]), abs(alike[2]))
    kept = (cost[1] <= allowed or cost[0] <= noise) and own <= OWN_BUDGET_US
    print(f"budgets {allowed:.0f} and {OWN_BUDGET_US:.0f} µs: {'kept' if kept else 'EXCEEDED'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
