"""What was alive when there was no memory left: from a repeat of the step, in real workers."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from llmprof.core import events as ev
from llmprof.core.catalog.models import load_models
from llmprof.core.memory.allocator_entries import read_snapshot
from llmprof.core.memory.recompute import LearnedCopies
from llmprof.core.memory.timeline import Known, base_of, build_timeline
from llmprof.core.report.oom_account import oom_account
from llmprof.core.report.table import Figure
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.store.journal import replay
from llmprof.core.worker.failed_step import FailingCudaRecorder, at_failure
from llmprof.core.worker.trainer import Trainer
from tests.engine.runs import llmprof, newest

RECORDING = Path(__file__).parents[1] / "fixtures" / "memory-snapshot-h100.json.gz"
HUNGRY = Path(__file__).parents[1] / "data" / "own_models" / "hungry.py"
PIBIBYTE = 1 << 50
PARAMETERS = 4 * (50 * 16 + 16 * 64 + 64 + 64 * 50 + 50)
PHASES = ("forward", "backward", "optimizer")

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def hungry(tmp_path_factory: pytest.TempPathFactory) -> RunView:
    """A case a phase that wants too much, and a preset after them."""
    folder = tmp_path_factory.mktemp("hungry")
    done = llmprof(
        folder, "run", *(f"--model={HUNGRY}:{phase}" for phase in PHASES), "--model-size=tiny",
        "--device=cpu", "--mode=train", "--context-length=8", "--batch-size=2",
        "--measure-steps=2", "--warmup-steps=1", timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return replay(newest(folder).journal)


def test_the_rest_of_the_run_is_measured(hungry: RunView) -> None:
    preset, *others = hungry.cases
    assert (preset.status, preset.at_failure) == ("ok", None)
    assert [state.status for state in others] == ["oom"] * 3
    assert hungry.outcome == "complete"
    assert not hungry.unknown_events


def failed(view: RunView, phase: str) -> CaseState:
    return next(s for s in view.cases if s.case.model.name == f"hungry:{phase}")


@pytest.mark.parametrize("phase", PHASES)
def test_what_was_alive_is_told_by_category(hungry: RunView, phase: str) -> None:
    found = failed(hungry, phase).at_failure
    assert found is not None
    assert (found.source, found.phase, found.bytes_asked) == ("cpu tensors", phase, PIBIBYTE)
    assert found.live["parameters"] == PARAMETERS
    hidden = next(each for each in found.largest if each.size == 4 * 2 * 8 * 64)
    if phase == "forward":
        assert (hidden.category, hidden.phase) == ("activations", "forward")
        assert hidden.what == "hungry.py:39 forward"
    if phase == "backward":
        assert found.live["gradients"] == 4 * (64 * 50 + 50)  # the head's, which comes first
        assert found.live["activations"] > 0
    if phase == "optimizer":
        assert found.live["optimizer state"] >= 2 * PARAMETERS
        assert found.live["gradients"] == PARAMETERS


def test_the_account_says_that_it_is_recorded(hungry: RunView) -> None:
    state = failed(hungry, "forward")
    table = oom_account(state, hungry)
    assert table is not None
    assert {row[4] for row in table.rows} == {"recorded", "read", ""}
    total = next(row[3] for row in table.rows if row[0] == "sum when it failed")
    assert isinstance(total, Figure)
    assert state.at_failure is not None
    assert total.value == sum(state.at_failure.live.values()) / 2**20
    assert any("run once more" in note for note in table.notes)


class Card:
    """CUDA's allocator as a recording has it: out of memory in the middle of the backward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with gzip.open(RECORDING) as file:
            recorded = json.load(file)
        self.whole: dict[str, Any] = recorded["snapshot"]
        self.base: int = recorded["base"]
        self.allocated = self.base
        self.history: list[str | None] = []
        self._observer: Callable[[int, int, int, int], None] | None = None
        backward = next(
            m for m in read_snapshot(self.whole, 0, 10**6).marks if m.phase == "backward"
        )
        self.refused_us = (backward.start_us + backward.end_us) // 2
        monkeypatch.setattr(torch.cuda, "memory_stats", self._stats)
        monkeypatch.setattr(torch.cuda.memory, "_snapshot", self._snapshot)
        monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", self._record)
        name = "_cuda_attach_out_of_memory_observer"
        monkeypatch.setattr(torch._C, name, self._observe, raising=False)

    def refuse(self) -> None:
        """Have no room: the observer is called, then torch raises."""
        assert self._observer is not None
        trace = read_snapshot(self._snapshot(), 0, 10**6)
        self.allocated = self.base + sum(entry.size for entry in trace.entries)
        self._observer(0, 3 << 30, 80 << 30, 1 << 20)
        self.allocated = self.base  # by when Python sees the error
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 GiB.")

    def _observe(self, observer: Callable[[int, int, int, int], None]) -> None:
        self._observer = observer

    def _record(self, enabled: str | None = "all", **_: object) -> None:
        self.history.append(enabled)

    def _stats(self, _: torch.device) -> dict[str, int]:
        return {"requested_bytes.all.current": self.allocated}

    def _snapshot(self) -> dict[str, Any]:
        def before(each: dict[str, Any]) -> bool:
            return bool(each["time_us"] <= self.refused_us)

        refused = {
            "action": "oom", "device_free": 1 << 20, "size": 3 << 30, "stream": 0,
            "time_us": self.refused_us, "frames": [],
        }  # fmt: skip
        traces = [*filter(before, self.whole["device_traces"][0]), refused]
        marks = list(filter(before, self.whole["external_annotations"]))
        return {"device_traces": [traces], "external_annotations": marks, "segments": []}


def test_a_card_is_asked_in_the_moment_of_its_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch)
    case = Case(model=load_models()["tiny"], context_length=8)
    trainer = Trainer(case, torch.device("cpu"))
    monkeypatch.setattr(trainer, "step", lambda _: card.refuse())
    recorder = FailingCudaRecorder(trainer, torch.device("cuda", 0))
    failed_step = recorder.record_failure(3, LearnedCopies())
    assert failed_step is not None
    found = at_failure(0, failed_step, "cuda allocator")
    assert (found.phase, found.bytes_asked, found.overflow) == ("backward", 3 << 30, False)
    assert card.history == ["all", None]  # and off again
    timeline = build_timeline(
        read_snapshot(card.whole, 0, 10**6), base_of((), card.base), (), Known()
    )
    at = bisect_right(timeline.trace.entries, card.refused_us, key=lambda entry: entry.t_us)
    assert sum(found.live.values()) == sum(timeline.levels()[at - 1])
    assert found.live["activations"] > 0
    assert any(each.what.startswith("model.py:") for each in found.largest)
    line = ev.encode(found)
    assert ev.decode(line) == found
    assert len(line) < 100_000


def test_what_fits_the_second_time_has_no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card(monkeypatch)
    trainer = Trainer(Case(model=load_models()["tiny"], context_length=8), torch.device("cpu"))
    monkeypatch.setattr(trainer, "step", lambda _: None)
    recorder = FailingCudaRecorder(trainer, torch.device("cuda", 0))
    assert recorder.record_failure(3, LearnedCopies()) is None
    assert card.history == ["all", None]
