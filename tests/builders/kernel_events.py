"""Profiles made by hand, the recorded one of a real card, and what is built from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from llmprof.core.catalog.models import select_models
from llmprof.core.kernels import range_names
from llmprof.core.kernels.attribution import Activities, ActivitySource, attribute
from llmprof.core.kernels.columns import COLUMN_DTYPES, EventColumns, Kind
from llmprof.core.kernels.step_windows import from_marks
from llmprof.core.spec.case import Case, Phase

FIXTURES = Path(__file__).parent.parent / "fixtures"
PHASES: tuple[Phase, ...] = ("forward", "loss", "backward", "optimizer", "zero_grad")
TINY = Case(model=select_models(["tiny"])[0], probe="kernels", measure_steps=2)


@cache
def recorded() -> Activities:
    """Two full steps of tiny on an H100 after one lead-in step, torch 2.11, CUDA 13.0."""
    columns = EventColumns.load(FIXTURES / "kernels-tiny-h100.npz")
    return attribute(columns, from_marks(columns, PHASES).last(2), "cuda")


@dataclass
class Made:
    """Builds a profile an event at a time; times in nanoseconds."""

    rows: list[dict[str, int]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    ids: int = 0

    def add(self, name: str, kind: Kind, start: int, duration: int, **fields: int) -> int:
        """One event; its correlation id, its own unless one is given."""
        self.ids += 1
        row = {
            "name": self.names.setdefault(name, len(self.names)),
            "kind": kind,
            "start": start,
            "duration": duration,
            "place": 1,
            "correlation": self.ids,
            "linked": 0,
            "sequence": -1,
            "forward_thread": 0,
            "scope": 0,
            **fields,
        }
        self.rows.append(row)
        return row["correlation"]

    def op(self, name: str, start: int, duration: int, **fields: int) -> int:
        """An op or range on thread 1."""
        return self.add(name, Kind.OP, start, duration, **fields)

    def launch(
        self,
        name: str,
        call: int,
        start: int,
        duration: int,
        *,
        op: int = 0,
        kind: Kind = Kind.KERNEL,
        api: str = "cudaLaunchKernel",
    ) -> None:
        """A runtime call of 10 ns and the activity that it launches on stream 7."""
        correlation = self.add(api, Kind.RUNTIME, call, 10, linked=op)
        self.add(name, kind, start, duration, correlation=correlation, linked=op, place=7)

    def step(self, start: int, edges: list[int], end: int, phases: tuple[str, ...]) -> None:
        """The ranges of a step whose phases lie between the edges."""
        self.op(range_names.STEP_RANGE, start, end - start)
        for phase, begin, until in zip(phases, edges[:-1], edges[1:], strict=True):
            self.op(range_names.PHASE_RANGE + phase, begin, until - begin)

    def columns(self) -> EventColumns:
        """All events so far."""
        arrays = {
            name: np.array([row[name] for row in self.rows], dtype)
            for name, dtype in COLUMN_DTYPES.items()
        }
        return EventColumns(names=tuple(self.names), **arrays)

    def activities(self, phases: tuple[str, ...], source: ActivitySource = "cuda") -> Activities:
        """The activities of all steps."""
        columns = self.columns()
        return attribute(columns, from_marks(columns, phases), source)


def two_phases() -> Made:
    """One step: a GEMM and an elementwise kernel forward, autograd's thread backward.

    The module blocks.0.mlp holds the forward op with sequence number 5, which made the node
    that launches in the backward from thread 2.
    """
    made = Made()
    made.step(1_000, [1_100, 2_000, 3_000], 3_500, ("forward", "backward"))
    made.op(range_names.MODULE_RANGE + "blocks.0.mlp", 1_150, 700)
    mm = made.op("aten::mm", 1_200, 100, sequence=5)
    made.launch("sm90_gemm_tn", 1_220, 1_400, 300, op=mm)
    add = made.op("aten::add", 1_400, 100, sequence=6)
    made.launch("void elementwise_kernel<1>(int)", 1_420, 1_900, 50, op=add)
    node = "autograd::engine::evaluate_function: MmBackward0"
    made.op(node, 2_100, 300, place=2, sequence=5, forward_thread=1)
    made.op("MmBackward0", 2_110, 250, place=2, sequence=5, forward_thread=1, scope=1)
    back = made.op("aten::mm", 2_120, 100, place=2)
    made.launch("sm90_gemm_nt", 2_140, 2_500, 400, op=back)
    made.launch(
        "Memset (Device)", 2_145, 2_450, 20, op=back, kind=Kind.MEMSET, api="cudaMemsetAsync"
    )
    return made
