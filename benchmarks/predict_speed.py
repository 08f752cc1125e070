"""What a prediction costs: closed form, traced, and torch's MemTracker on the same cases.

    python benchmarks/predict_speed.py [SIZES]      # small,medium,2.7B

Traced and MemTracker run on fake tensors in this process, torch already imported; MemTracker is
given the whole model, since it does not extrapolate.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from llmprof.core.predict.memory import predict
from llmprof.core.predict.replay import replay
from llmprof.core.presets import load_models
from llmprof.core.spec import Case
from llmprof.core.worker.trace import trace
from llmprof.core.worker.trainer import Trainer


def seconds(call: Callable[[], object], repeats: int = 1) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def mem_tracker(case: Case) -> None:
    """One forward and backward of the case under MemTracker."""
    with FakeTensorMode():
        trainer = Trainer(case, torch.device("cpu"))
        tracker = MemTracker()
        tracker.track_external(trainer.model)
        with tracker:
            trainer.step(lambda index: None)


def main() -> None:
    names = sys.argv[1].split(",") if len(sys.argv) > 1 else ["small", "medium", "2.7B"]
    models = load_models()
    trace(Case(model=models["tiny"], mode="train"))  # imports and caches
    print("| Case | Closed form (ms) | Replay (s) | Traced (s) | MemTracker (s) |")
    print("|---|---:|---:|---:|---:|")
    for name in names:
        case = Case(model=models[name], mode="forward-backward", context_length=512)
        closed = 1000 * seconds(lambda case=case: predict(case), 21)  # type: ignore[misc]
        replayed = seconds(lambda case=case: replay(case), 3)  # type: ignore[misc]
        traced = seconds(lambda case=case: trace(case))  # type: ignore[misc]
        tracked = seconds(lambda case=case: mem_tracker(case))  # type: ignore[misc]
        print(f"| {case.label} | {closed:.2f} | {replayed:.2f} | {traced:.2f} | {tracked:.1f} |")


if __name__ == "__main__":
    main()
