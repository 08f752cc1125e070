"""What a worker process is asked to do."""

from __future__ import annotations

import msgspec

from llmprof.core.spec.case import Case

SILENT = "nothing heard for {} s, ended"
REFUSED = 3  # exit code of a worker that has said why the device cannot be read


class WorkerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One worker's work: a case of a run, or the look at the device (case None)."""

    case: Case | None
    index: int
    device: str  # "auto", "cpu", "cuda", "cuda:1"
    run_dir: str
    memory_limit_bytes: int | None = None  # CPU only: what may be mapped beyond the start
    scratch: str | None = None  # an empty folder that is removed with the worker
    silence_s: float = 0.0  # after which the engine ends it
    created_ns: int = 0  # when the engine asked for the process
