"""Asks a process of its own to trace cases; nothing here imports torch."""

from __future__ import annotations

import subprocess
import sys

import msgspec

from llmprof.core.predict.closed_form import HOPPER, MemoryPrediction, PhaseBytes
from llmprof.core.spec.case import Case, Phase
from llmprof.core.system.modules_by_name import TRACER
from llmprof.core.system.text import clean

TIMEOUT_S = 600.0
ROUNDING = 0.05  # of requested bytes, what the allocator may add to those of an own model


class TraceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Cases to trace for a card of a compute capability."""

    cases: tuple[Case, ...]
    capability: tuple[int, int] | None = HOPPER  # None: on the CPU


class TracedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A traced prediction: requested bytes at the peak and by phase, or why there is none."""

    key: str
    parameters: int | None = None
    requested_bytes: int | None = None
    phases: dict[Phase, int] = {}
    ends: dict[Phase, int] = {}  # the level after each phase
    seconds: float | None = None  # the trace alone, torch's import not counted
    error: str | None = None


def traced_prediction(case: Case, traced: TracedCase) -> MemoryPrediction:
    """The prediction that a trace makes of an own model; the trace must have succeeded.

    Allocated bytes are given ROUNDING more than requested ones: what the allocator rounds and
    does not split is not traced.
    """
    assert traced.requested_bytes is not None
    top = max(traced.phases, key=lambda phase: traced.phases[phase])
    return MemoryPrediction(
        requested_bytes=traced.requested_bytes,
        allocated_low=traced.requested_bytes,
        allocated_high=int(traced.requested_bytes * (1 + ROUNDING)),
        peak_phase=top,
        phases=tuple(
            PhaseBytes(phase, peak, traced.ends[phase]) for phase, peak in traced.phases.items()
        ),
        breakdown={},
        kernel=None,
        upper_bound=case.compile is not None,
    )


def trace_cases(
    cases: list[Case], capability: tuple[int, int] | None = HOPPER, timeout_s: float = TIMEOUT_S
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
