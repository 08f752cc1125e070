"""What a prediction costs: closed form, traced, and torch's MemTracker on the same cases.

    python benchmarks/predict_speed.py [SIZES]      # small,medium,2.7B
    python benchmarks/predict_speed.py closed       # the closed form alone

The closed form is timed over its whole table: every size, context, attention, precision, mode
and optimizer, processor time, warm; the best of three of each, since what else runs on the
machine can only add. Budget: 5 ms in the worst configuration.

Traced and MemTracker run on fake tensors in this process, torch already imported; MemTracker is
given the whole model, since it does not extrapolate.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterable

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from llmprof.core.catalog.models import load_models
from llmprof.core.predict.allocator_replay import replay_allocator
from llmprof.core.predict.closed_form import predict
from llmprof.core.spec.axes import ATTENTIONS, MODES, OPTIMIZERS, PRECISIONS
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape
from llmprof.core.worker.trace import trace
from llmprof.core.worker.trainer import Trainer

CONTEXTS = (128, 256, 512, 1024)


def seconds(call: Callable[[], object], repeats: int = 1) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def closed_form(models: Iterable[ModelShape]) -> None:
    """Median and worst over the table."""
    shapes = itertools.product(models, CONTEXTS, ATTENTIONS, PRECISIONS, MODES, OPTIMIZERS)
    times = []
    for model, context, attention, precision, mode, optimizer in shapes:
        case = Case(
            model=model,
            context_length=context,
            attention=attention,
            precision=precision,
            mode=mode,
            optimizer=optimizer,
        )
        times.append((min(processor_ms(case) for _ in range(3)), case.label))
    times.sort()
    (middle, _), (worst, label) = times[len(times) // 2], times[-1]
    print(f"\nclosed form, {len(times):,} configurations, processor time: median {middle:.2f} ms, "
          f"worst {worst:.2f} ms ({label})")  # fmt: skip


def processor_ms(case: Case) -> float:
    start = time.thread_time_ns()
    predict(case)
    return (time.thread_time_ns() - start) / 1e6


def mem_tracker(case: Case) -> None:
    """One forward and backward of the case under MemTracker."""
    with FakeTensorMode():
        trainer = Trainer(case, torch.device("cpu"))
        tracker = MemTracker()
        tracker.track_external(trainer.model)
        with tracker:
            trainer.step(lambda index: None)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sizes", nargs="?", default="small,medium,2.7B")
    names = parser.parse_args().sizes.split(",")
    models = load_models()
    if names == ["closed"]:
        closed_form(models.values())
        return
    trace(Case(model=models["tiny"], mode="train"))  # imports and caches
    print("| Case | Closed form (ms) | Replay (s) | Traced (s) | MemTracker (s) |")
    print("|---|---:|---:|---:|---:|")
    for name in names:
        case = Case(model=models[name], mode="forward-backward", context_length=512)
        closed = 1000 * seconds(lambda case=case: predict(case), 21)  # type: ignore[misc]
        replayed = seconds(lambda case=case: replay_allocator(case), 3)  # type: ignore[misc]
        traced = seconds(lambda case=case: trace(case))  # type: ignore[misc]
        tracked = seconds(lambda case=case: mem_tracker(case))  # type: ignore[misc]
        print(f"| {case.label} | {closed:.2f} | {replayed:.2f} | {traced:.2f} | {tracked:.1f} |")
    closed_form(models.values())


if __name__ == "__main__":
    main()
