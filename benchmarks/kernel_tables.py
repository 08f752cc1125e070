"""How much sooner llmprof's kernel tables are ready than torch's key_averages, on one profile.

    python benchmarks/kernel_tables.py --model large --context-length 128 --steps 8

Profiles the same steps twice, with CPU and CUDA activities and with CUDA's only. From each
profile both tables are built, and the totals of every kernel name compared.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from llmprof.core.catalog.models import select_models
from llmprof.core.kernels import profile as summary
from llmprof.core.kernels.attribution import Activities, attribute
from llmprof.core.kernels.extract import extract
from llmprof.core.kernels.step_windows import Windows
from llmprof.core.kernels.tables import class_ids, kernel_rows
from llmprof.core.kernels.timeline import timeline
from llmprof.core.spec.case import Case
from llmprof.core.worker.trainer import Trainer

Totals = dict[str, tuple[int, float]]


@dataclass(frozen=True)
class Recording:
    """A profile and the host times of its steps' phase edges."""

    profiler: profile
    steps: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    edges: np.ndarray[tuple[int, int], np.dtype[np.int64]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="large")
    parser.add_argument("--context-length", type=int, default=128)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--json", type=Path, help="write the figures here")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(2, "kernel_tables.py needs a CUDA card\n")
    (model,) = select_models([args.model])
    case = Case(model=model, context_length=args.context_length)
    trainer = Trainer(case, torch.device("cuda"))
    for _ in range(3):
        trainer.step(lambda index: None)
    record(trainer, [ProfilerActivity.CPU, ProfilerActivity.CUDA], 1)
    print(f"{torch.cuda.get_device_name()} · torch {torch.__version__} · {case.label}")
    figures = [
        compare(trainer, "CPU+CUDA", [ProfilerActivity.CPU, ProfilerActivity.CUDA], args.steps),
        compare(trainer, "CUDA only", [ProfilerActivity.CUDA], args.steps),
    ]
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1))


def record(trainer: Trainer, activities: list[ProfilerActivity], steps: int) -> Recording:
    phases = len(trainer.case.phases)
    edges = np.zeros((steps, phases + 1), np.int64)
    spans = np.zeros((steps, 2), np.int64)
    torch.cuda.synchronize()
    with profile(activities=activities) as profiler:
        for step in range(steps):
            spans[step, 0] = time.time_ns()

            def edge(index: int, step: int = step) -> None:
                edges[step, index] = time.time_ns()

            trainer.step(edge)
            torch.cuda.synchronize()
            spans[step, 1] = time.time_ns()
    return Recording(profiler, spans, edges)


def compare(
    trainer: Trainer, label: str, kinds: list[ProfilerActivity], steps: int
) -> dict[str, object]:
    recording = record(trainer, kinds, steps)
    before = current_mib()
    start = time.perf_counter()
    events, activities, extracted = ours(recording, trainer)
    ours_s = time.perf_counter() - start
    memory = peak_mib() - before
    mine = totals(activities)
    start = time.perf_counter()
    averages = recording.profiler.key_averages()
    theirs_s = time.perf_counter() - start
    worst, missing = difference(mine, their_totals(averages))
    ratio = theirs_s / ours_s
    print(
        f"{label:9}  {events:,} events, {len(activities):,} activities: llmprof {ours_s:.2f} s"
        f" (raw events {extracted:.2f} s), key_averages {theirs_s:.2f} s, {ratio:.1f} times;"
        f" +{memory:.0f} MiB; {len(mine)} kernel names, largest difference {worst:.4f} %,"
        f" {missing} only in one"
    )
    return {
        "activities": label,
        "events": events,
        "llmprof_s": ours_s,
        "extract_s": extracted,
        "key_averages_s": theirs_s,
        "ratio": ratio,
        "memory_mib": memory,
        "worst_difference_percent": worst,
        "names_in_one_only": missing,
    }


def ours(recording: Recording, trainer: Trainer) -> tuple[int, Activities, float]:
    start = time.perf_counter()
    assert recording.profiler.profiler is not None
    results = recording.profiler.profiler.kineto_results
    assert results is not None
    columns = extract(results.events())
    extracted = time.perf_counter() - start
    spans = np.stack([recording.edges[:, :-1], recording.edges[:, 1:]], axis=-1)
    windows = Windows(trainer.case.phases, recording.steps, spans)
    activities = attribute(columns, windows, "cuda")
    classes = class_ids(activities)
    summary.kernel_table(activities, classes, index=0, case=trainer.case)
    timeline(activities, classes)
    return len(columns), activities, extracted


def totals(activities: Activities) -> Totals:
    """Calls and microseconds of each kernel name, all phases together."""
    found: Totals = {}
    for row in kernel_rows(activities, class_ids(activities)):
        calls, total = found.get(row.full_name, (0, 0.0))
        found[row.full_name] = (calls + row.calls, total + 1e3 * row.total_ms)
    return found


def their_totals(averages: object) -> Totals:
    """The same from key_averages: its rows of the device that are no annotations."""
    return {
        row.key: (row.count, row.self_device_time_total)
        for row in averages  # type: ignore[attr-defined]
        if row.device_type == DeviceType.CUDA and not row.is_user_annotation
    }


def difference(mine: Totals, theirs: Totals) -> tuple[float, int]:
    """Largest difference of a name's total in percent, and names that only one has."""
    common = set(mine) & set(theirs)
    worst = max(
        (abs(mine[name][1] - theirs[name][1]) / theirs[name][1] for name in common), default=0.0
    )
    return 100 * worst, len(set(mine) ^ set(theirs))


def current_mib() -> float:
    """Resident memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def peak_mib() -> float:
    """Highest resident memory so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
