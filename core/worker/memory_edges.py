"""Bytes at the phase edges, from one extra step that is not timed."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, cast

import msgspec
import torch

from llmprof.core import events as ev
from llmprof.core.events.memory import CUDA_ALLOCATOR, RESIDENT_SET
from llmprof.core.spec.case import Phase
from llmprof.core.worker.job import Job
from llmprof.core.worker.stepper import Stepper

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def memory_step(job: Job, trainer: Stepper) -> ev.MemoryStep:
    """Run one step and read memory at every edge: CUDA's allocator, or the resident set."""
    cuda = job.device.type == "cuda"
    names: tuple[Phase | Literal["start"], ...] = ("start", *job.case.sequence)
    edges: list[ev.MemoryEdge] = []

    def edge(index: int) -> None:
        name = names[index]
        edges.append(_cuda_edge(name, job.device) if cuda else _host_edge(name))

    if cuda:
        torch.cuda.reset_peak_memory_stats(job.device)
    trainer.step(edge)
    source = CUDA_ALLOCATOR if cuda else RESIDENT_SET
    return ev.MemoryStep(case=job.index, edges=_one_a_phase(edges), source=source)


def _one_a_phase(edges: list[ev.MemoryEdge]) -> tuple[ev.MemoryEdge, ...]:
    """Edges in which a phase of several micro-batches is one: its highest peak, its last level."""
    found: dict[str, ev.MemoryEdge] = {}
    for edge in edges:
        before = found.get(edge.phase, edge)
        requested = max(before.requested_peak_bytes or 0, edge.requested_peak_bytes or 0)
        found[edge.phase] = msgspec.structs.replace(
            edge,
            peak_bytes=max(before.peak_bytes, edge.peak_bytes),
            requested_peak_bytes=requested or None,
        )
    return tuple(found.values())


def _cuda_edge(name: Phase | Literal["start"], device: torch.device) -> ev.MemoryEdge:
    stats = torch.cuda.memory_stats(device)
    torch.cuda.reset_peak_memory_stats(device)
    return ev.MemoryEdge(
        phase=name,
        allocated_bytes=stats["allocated_bytes.all.current"],
        peak_bytes=stats["allocated_bytes.all.peak"],
        requested_peak_bytes=stats.get("requested_bytes.all.peak"),
        reserved_bytes=stats["reserved_bytes.all.current"],
    )


def _host_edge(name: Phase | Literal["start"]) -> ev.MemoryEdge:
    fields = dict(
        cast(tuple[str, str], tuple(line.split(":", 1)))
        for line in _STATUS.read_text().splitlines()
        if ":" in line
    )
    resident, peak = (int(fields[key].split()[0]) << 10 for key in ("VmRSS", "VmHWM"))
    try:
        _CLEAR_REFS.write_text("5")  # peak := resident (proc(5))
    except OSError:
        peak = max(peak, resident)
    return ev.MemoryEdge(phase=name, allocated_bytes=resident, peak_bytes=peak)
