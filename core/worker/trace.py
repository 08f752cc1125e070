"""Traced prediction: one step on fake tensors, at two depths, extrapolated to the real one.

Runs in a process of its own (`python -m llmprof.core.worker.trace`), since tracing stalls every
other thread. Reads a Request as JSON on stdin, writes a tuple of TracedCase as JSON to stdout.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar, cast
from unittest import mock

import msgspec
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from llmprof.core.predict.closed_form import HOPPER, workspaces
from llmprof.core.predict.traced import TracedCase, TraceRequest
from llmprof.core.predict.traced_depth import PhaseTrace, extrapolate, phase_trace
from llmprof.core.spec.case import Case, Phase
from llmprof.core.worker.as_cuda import CudaHabits, cuda_scratch
from llmprof.core.worker.failures import OwnModelError
from llmprof.core.worker.model import TransformerLM
from llmprof.core.worker.storage_tracker import StorageTracker
from llmprof.core.worker.trace_own import trace_own
from llmprof.core.worker.trainer import Trainer

DEPTHS = (2, 3)
CPU = torch.device("cpu")


class Untraceable(RuntimeError):
    """A model whose step depends on data; its text is one line that says what to do instead."""


def trace(case: Case, capability: tuple[int, int] | None = HOPPER) -> TracedCase:
    """Predict a case by tracing it, for a card of a capability or, with None, for the CPU.

    Raises Untraceable.
    """
    began = time.perf_counter()
    if case.shape is None:
        parameters, biased, phases = _traced(lambda: trace_own(case, capability))
    else:
        parameters, biased = case.shape.parameters, case.shape.qkv_bias
        phases = _at_depth(case, capability or HOPPER)
    outside = 0 if capability is None else sum(workspaces(case, capability, biased=biased))
    return TracedCase(
        key=case.key,
        parameters=parameters,
        requested_bytes=max(phase.peak for phase in phases) + outside,
        phases=_highest(phases, outside),
        ends={_phase(each): each.end + outside for each in phases},
        seconds=time.perf_counter() - began,
    )


def _depths(case: Case) -> tuple[int, ...]:
    """Depths to trace: two and three layers, or checkpoints and what is left of one."""
    layers, every = case.reference.num_layers, case.blocks_a_checkpoint or 1
    two, three = (count * every + layers % every for count in DEPTHS)
    return (two, three) if layers > three else (layers,)


def _highest(phases: list[PhaseTrace], outside: int) -> dict[Phase, int]:
    """The peak of each phase, of all micro-batches, with what is held outside of tensors."""
    found: dict[Phase, int] = {}
    for phase in phases:
        name = _phase(phase)
        found[name] = max(found.get(name, 0), phase.peak + outside)
    return found


def _phase(traced: PhaseTrace) -> Phase:
    return cast(Phase, traced.name)


Traced = TypeVar("Traced")


def _traced(step: Callable[[], Traced]) -> Traced:
    try:
        return step()
    except Exception as error:
        raise Untraceable(explain(error)) from error


def _at_depth(case: Case, capability: tuple[int, int]) -> list[PhaseTrace]:
    """The reference model's phases, at two depths and from there on to the real one."""
    depths = _depths(case)
    runs = [_traced(partial(_trace_at, case, depth, capability)) for depth in depths]
    if len(runs) == 1:
        return runs[0]
    more = (case.reference.num_layers - depths[0]) // (depths[1] - depths[0])
    return extrapolate(runs[0], runs[1], more)


def _trace_at(case: Case, depth: int, capability: tuple[int, int]) -> list[PhaseTrace]:
    shallow = msgspec.structs.replace(
        case, model=msgspec.structs.replace(case.reference, num_layers=depth), compile=None
    )
    tracker = StorageTracker(cuda_scratch(capability))
    names = (*case.sequence, "end")
    with FakeTensorMode():
        trainer = _trainer(shallow)
        if isinstance(trainer.model, TransformerLM):
            trainer.model.around_recompute(lambda: CudaHabits(capability))
        with _optimizer_without_data(trainer), CudaHabits(capability), tracker:
            tracker.count(*_held(trainer))
            trainer.step(lambda index: tracker.edge(names[index]))
    spans = [span for span in tracker.spans if span.name != "end"]
    return [
        phase_trace(s.name, s.start, s.end, [(m.op, m.size, m.level) for m in s.moments])
        for s in spans
    ]


def _trainer(case: Case) -> Trainer:
    fp16 = case.precision == "fp16"
    trainer = Trainer(msgspec.structs.replace(case, precision="bf16") if fp16 else case, CPU)
    if trainer.optimizer is not None:
        for p in trainer.model.parameters():
            trainer.optimizer.state[p] = _moments(case, p)
    return trainer


def _moments(case: Case, p: nn.Parameter) -> dict[str, object]:
    moments: dict[str, object] = {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
    if case.optimizer == "loop":
        return {"t": 1, **moments}
    return {"step": torch.zeros((), dtype=torch.float32), **moments}


def _held(trainer: Trainer) -> Iterator[torch.Tensor]:
    yield from trainer.model.parameters()
    yield from trainer.model.buffers()
    yield from (tensor for _, tensor in trainer.task.tensors)
    if trainer.optimizer is not None:
        for state in trainer.optimizer.state.values():
            yield from (v for k, v in state.items() if k.startswith("exp_avg"))
            if trainer.case.optimizer == "fused":
                yield state["step"]


@contextlib.contextmanager
def _optimizer_without_data(trainer: Trainer) -> Iterator[None]:
    """AdamW reads its step count from a tensor; a fake one has no value, so it is given one."""
    if trainer.optimizer is None:
        yield
        return
    with mock.patch("torch.optim.adam._get_value", return_value=2.0):
        yield


def explain(error: BaseException) -> str:
    """One line on why a model cannot be traced and what to do instead."""
    if isinstance(error, OwnModelError):
        return f"cannot be built: {error}"
    place = _place(error)
    if type(error).__name__ in ("DataDependentOutputException", "DynamicOutputShapeException"):
        reason = "its step reads a tensor's value (.item(), a mask's shape, an if on a tensor)"
    else:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return f"cannot be traced{place}: {reason}; record it with `llmprof run memory` instead"


# This program, by the folder and by the link through which it may have been imported.
_OWN = (
    f"{Path(__file__).parents[1]}/",
    f"{Path(__file__).resolve().parents[1]}/",
)


def _place(error: BaseException) -> str:
    place, frame = "", error.__traceback__
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if "/torch/" not in name and not name.startswith(_OWN):
            place = f" at {name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place


def main() -> None:
    """Answer one request."""
    answer = os.dup(1)
    os.dup2(2, 1)  # what the user's code prints is no part of the answer
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=TraceRequest)
    answers = []
    for case in request.cases:
        try:
            answers.append(trace(case, request.capability))
        except Untraceable as error:
            answers.append(TracedCase(key=case.key, error=str(error)))
    with os.fdopen(answer, "wb") as file:
        file.write(msgspec.json.encode(answers))


if __name__ == "__main__":
    main()
