"""What is advised fits, and what is called too large does not: steps under a limit of memory."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from llmprof.core import events as ev
from llmprof.core.catalog.models import load_models
from llmprof.core.predict.advice import advise
from llmprof.core.predict.closed_form import predict
from llmprof.core.predict.fits import CONTEXT_HIGH, CONTEXT_LOW, Room, decide
from llmprof.core.spec.case import Case
from llmprof.core.worker.job import Job
from llmprof.core.worker.memory_edges import memory_step
from llmprof.core.worker.request import WorkerRequest
from llmprof.core.worker.trainer import Trainer

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card"),
]
GIB = 1 << 30
DEVICE = torch.device("cuda", 0)
CASE = Case(model=load_models()["xl"], context_length=2048)


class Quiet(Job):
    """A job whose events go nowhere."""

    def __init__(self, case: Case) -> None:
        request = WorkerRequest(case=case, index=0, device="cuda:0", run_dir=str(Path()))
        super().__init__(request, case, DEVICE, -1)

    def emit(self, *events: ev.Event) -> None:
        pass


@contextmanager
def limited(size: int) -> Iterator[None]:
    """The allocator may hold so many bytes of the card."""
    total = torch.cuda.get_device_properties(DEVICE).total_memory
    if size > total:
        pytest.skip(f"the card has {total / GIB:.0f} GiB")
    gc.collect()
    torch.cuda.empty_cache()
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.set_per_process_memory_fraction(size / total, DEVICE)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, DEVICE)


def requested_peak(case: Case) -> int:
    """Most requested bytes of a step after two of warm-up. Raises torch.OutOfMemoryError."""
    before: int = torch.cuda.memory_stats(DEVICE)["requested_bytes.all.current"]
    trainer = Trainer(case, DEVICE)
    for _ in range(2):
        trainer.step(lambda index: None)
    edges = memory_step(Quiet(case), trainer).edges
    return max(edge.requested_peak_bytes or 0 for edge in edges) - before


@pytest.mark.parametrize("gib", [24, 48, 80])
def test_what_is_advised_fits_and_what_is_too_large_does_not(gib: int) -> None:
    room = Room(f"{gib}GiB", gib * GIB, torch.cuda.get_device_capability(DEVICE))
    assert decide(CASE, predict(CASE, room.capability), room) == "does not fit"
    with limited(room.free_bytes - CONTEXT_LOW), pytest.raises(torch.OutOfMemoryError):
        requested_peak(CASE)
    advice = advise(CASE, room)
    assert advice
    for each in advice:
        with limited(room.free_bytes - CONTEXT_HIGH):
            assert requested_peak(each.case) == pytest.approx(each.peak_bytes, rel=1e-4), each.text
