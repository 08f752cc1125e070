"""torch.compile, cold: an empty cache for each case, and its first step timed apart."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import torch

from llmprof.core.worker.job import Job
from llmprof.core.worker.trainer import Stepper


def use_empty_cache(scratch: str | None) -> None:
    """Point inductor and triton at an empty folder, so that a compilation is never a cached one.

    Must be called before anything is compiled.
    """
    if scratch is None:
        return
    folder = Path(scratch) / "inductor"
    folder.mkdir(exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")


def compile_step(job: Job, stepper: Stepper) -> tuple[float | None, float | None]:
    """Wall milliseconds and loss of the first step of a compiled case, which compiles; else None.

    The figure holds one run of the step besides the compilation of all its graphs.
    """
    if job.case.compile is None:
        return None, None
    job.phase = "compile"
    start = time.monotonic_ns()
    loss = stepper.step(lambda index: None)
    if job.device.type == "cuda":
        torch.cuda.synchronize(job.device)
    took = (time.monotonic_ns() - start) / 1e6
    value = None if loss is None else loss.item()
    return took, value if value is not None and math.isfinite(value) else None
