"""The calibrate probe: the fastest matrix products and copies that this device does."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from llmprof.core import events as ev
from llmprof.core.spec.axes import Precision
from llmprof.core.spec.case import Case
from llmprof.core.worker.job import Job
from llmprof.core.worker.trainer import AUTOCAST, set_precision

RUNS = 5  # the best counts: a ceiling is what can be reached
RUN_S = 0.1
BUDGET_S = 2.0  # for one figure; a slow device gets fewer runs
SIZES = {"cuda": (4096, 8192), "cpu": (256, 768)}  # of square products
COPY_BYTES = {"cuda": 1 << 30, "cpu": 1 << 28}  # beyond any cache


def run(job: Job) -> None:
    """Measure every precision that the device has, and a copy. Raises what torch raises."""
    kind = job.device.type
    job.phase = "matmul"
    rates: dict[str, float] = {}
    for precision in precisions(job.case, job.device):
        rates[precision] = max(matmul_tflops(precision, n, job.device) for n in SIZES[kind])
    job.phase = "copy"
    ceilings = ev.Ceilings(
        matmul_tflops=rates,
        copy_gbs=copy_gbs(COPY_BYTES[kind], job.device),
        torch=str(torch.__version__),
        wall_ns=time.time_ns(),
    )
    job.emit(ev.Calibrated(case=job.index, ceilings=ceilings))


def precisions(case: Case, device: torch.device) -> tuple[Precision, ...]:
    """The precisions whose products are worth measuring on a device."""
    if device.type != "cuda":
        return ("fp32", "bf16")
    major, _ = torch.cuda.get_device_capability(device)
    return ("fp32", "tf32", "bf16", "fp16") if major >= 8 else ("fp32", "fp16")


def matmul_tflops(precision: Precision, size: int, device: torch.device) -> float:
    """Best rate of a square product of random matrices, TFLOP/s (2·n³ operations)."""
    set_precision(precision)
    dtype = AUTOCAST.get(precision, torch.float32)
    a, b = (torch.randn(size, size, dtype=dtype, device=device) for _ in range(2))
    out = torch.empty_like(a)
    seconds = best_seconds(lambda: torch.mm(a, b, out=out), device)
    return 2 * size**3 / seconds / 1e12


def copy_gbs(count: int, device: torch.device) -> float:
    """Best rate of a copy within the device's memory, bytes read and written, GB/s."""
    source = torch.empty(count, dtype=torch.uint8, device=device).random_()
    target = torch.empty_like(source)
    seconds = best_seconds(lambda: target.copy_(source), device)
    return 2 * count / seconds / 1e9


def best_seconds(work: Callable[[], object], device: torch.device) -> float:
    """Shortest mean time of one call over RUNS runs of about RUN_S each, after warm-up runs."""
    calls, elapsed = 1, _timed(work, 1, device)
    while elapsed < RUN_S / 2:
        calls = max(calls + 1, round(calls * RUN_S / max(elapsed, 1e-6)))
        elapsed = _timed(work, calls, device)
    begun = time.perf_counter()
    best = _timed(work, calls, device) / calls
    for _ in range(RUNS - 1):
        if time.perf_counter() - begun > BUDGET_S:
            break
        best = min(best, _timed(work, calls, device) / calls)
    return best


def _timed(work: Callable[[], object], calls: int, device: torch.device) -> float:
    _drain(device)
    start = time.perf_counter()
    for _ in range(calls):
        work()
    _drain(device)
    return time.perf_counter() - start


def _drain(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
