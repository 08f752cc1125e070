"""Asks a process of its own to trace cases; nothing here imports torch."""

from __future__ import annotations

import subprocess
import sys

import msgspec

from llmprof.core.predict.closed_form import HOPPER
from llmprof.core.spec.case import Case
from llmprof.core.system.modules_by_name import TRACER
from llmprof.core.system.text import clean

TIMEOUT_S = 600.0


class TraceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Cases to trace for a card of a compute capability."""

    cases: tuple[Case, ...]
    capability: tuple[int, int] = HOPPER


class TracedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A traced prediction: requested bytes at the peak and by phase, or why there is none."""

    key: str
    requested_bytes: int | None = None
    phases: dict[str, int] = {}
    seconds: float | None = None  # the trace alone, torch's import not counted
    error: str | None = None


def trace_cases(
    cases: list[Case], capability: tuple[int, int] = HOPPER, timeout_s: float = TIMEOUT_S
) -> dict[str, TracedCase]:
    """Trace cases in a worker process; the answers by the cases' keys."""
    request = msgspec.json.encode(TraceRequest(cases=tuple(cases), capability=capability))
    command = [sys.executable, "-m", TRACER]
    try:
        done = subprocess.run(
            command, input=request, capture_output=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return _failed(cases, f"the tracing process failed: {error}")
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1] if lines else f"exit code {done.returncode}"
        return _failed(cases, f"the tracing process failed: {clean(why)}")
    answers = msgspec.json.decode(done.stdout, type=list[TracedCase])
    return {answer.key: answer for answer in answers}


def _failed(cases: list[Case], error: str) -> dict[str, TracedCase]:
    return {case.key: TracedCase(key=case.key, error=error) for case in cases}
