"""A training that runs out of memory: where, what the allocator said, what was alive; once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from llmprof.core import events as ev
from llmprof.core.lint.loops import loop_verdicts
from llmprof.core.report.loops import loop_out_of_memory
from llmprof.core.store.journal import replay
from llmprof.core.track import refusals
from llmprof.core.track.allocator import AllocatorFigures
from llmprof.core.track.tracker import Tracker
from tests.builders import watched_scripts
from tests.builders.tracked_scripts import newest

MIB = 1 << 20
PIBIBYTE = 1 << 50
HUNGRY = """
model = net()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for at, (x,) in enumerate(loader(6)):
    loss = model(x).square().mean()
    if at in (1, 4):
        loss.register_hook(lambda g: torch.empty(1 << 50, dtype=torch.uint8))
    try:
        loss.backward()
    except RuntimeError:
        if at == 4:
            raise
        continue
    optimizer.step()
"""


def test_a_watched_script_says_where_it_ended(tmp_path: Path) -> None:
    done = watched_scripts.run(tmp_path, HUNGRY)
    plain = watched_scripts.run(tmp_path, HUNGRY, watched=False)
    assert (done.returncode, plain.returncode) == (1, 1)
    assert done.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
    view = replay(newest(tmp_path).journal)
    (loop,) = view.loops
    found = loop.out_of_memory
    assert found is not None
    assert (found.part, found.bytes_asked) == ("backward", PIBIBYTE)
    assert found.index == loop.steps
    (verdict,) = [each for each in loop_verdicts(view) if each.rule == "out of memory"]
    assert "in backward" in verdict.finding
    assert "asked 1048576.00 GiB" in verdict.finding
    (table,) = loop_out_of_memory(view)
    assert "which ended it" in table.notes[0]


def figures(_: int) -> AllocatorFigures:
    return AllocatorFigures(allocated=700 * MIB, peak=800 * MIB, reserved=900 * MIB, retries=2)


class Card:
    """torch's calls of a card: an observer that is called as the allocator refuses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, history: bool) -> None:
        self.snapshots = 0
        self.attached: list[Callable[[int, int, int, int], None]] = []
        monkeypatch.setattr(refusals, "_watched", None)
        calls = {
            "_cuda_attach_out_of_memory_observer": self.attached.append,
            "_cuda_isHistoryEnabled": lambda: history,
        }
        for name, call in calls.items():
            monkeypatch.setattr(torch._C, name, call, raising=False)
        monkeypatch.setattr(torch.cuda.memory, "_snapshot", self._snapshot)

    def refuse(self, asked: int = 2048 * MIB) -> None:
        for observer in self.attached:
            observer(0, asked, 8192 * MIB, 100 * MIB)

    def _snapshot(self) -> dict[str, Any]:
        self.snapshots += 1
        frames = [
            {"filename": "/x/site-packages/torch/nn/functional.py", "line": 9, "name": "linear"},
            {"filename": "/home/me/train.py", "line": 12, "name": "forward"},
        ]
        blocks = [
            {"address": 1 << 20, "size": 64 * MIB, "requested_size": 60 * MIB,
             "state": "active_allocated", "frames": frames},
            {"address": 2 << 20, "size": 64 * MIB, "requested_size": 60 * MIB,
             "state": "active_allocated", "frames": frames},
            {"address": 3 << 20, "size": 96 * MIB, "requested_size": 96 * MIB,
             "state": "active_allocated", "frames": []},
            {"address": 4 << 20, "size": 512 * MIB, "state": "inactive", "frames": []},
        ]  # fmt: skip
        segment = {"device": 0, "address": 1 << 20, "total_size": 1 << 30, "blocks": blocks}
        other = {"device": 1, "address": 1 << 20, "total_size": 1 << 30, "blocks": blocks[:1]}
        return {"segments": [segment, other], "device_traces": [[], []]}


def in_backward() -> Tracker:
    tracker = Tracker()
    tracker.begin()
    tracker.begin_step()
    tracker.enter("backward")
    return tracker


def test_a_card_says_what_was_alive_once(monkeypatch: pytest.MonkeyPatch) -> None:
    card, said = Card(monkeypatch, history=True), list[ev.LoopOutOfMemory]()
    watched = refusals.watch_refusals(in_backward(), said.append, figures)
    card.refuse()
    card.refuse(asked=64 * MIB)
    (found,) = said
    assert (found.part, found.index, found.bytes_asked) == ("backward", 0, 2048 * MIB)
    assert (found.allocated_bytes, found.free_bytes) == (700 * MIB, 100 * MIB)
    assert [(each.what, each.count, each.size) for each in found.largest] == [
        ("train.py:12 forward", 2, 60 * MIB),
        ("unknown", 1, 96 * MIB),
    ]
    assert watched.newest is not None
    assert watched.newest.bytes_asked == 64 * MIB
    assert card.snapshots == 1
    assert len(ev.encode(found)) < 10_000
    assert json.loads(ev.encode(found))["largest"]


def test_without_history_no_snapshot_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    card, said = Card(monkeypatch, history=False), list[ev.LoopOutOfMemory]()
    refusals.watch_refusals(in_backward(), said.append, figures)
    card.refuse()
    assert (card.snapshots, said[0].largest, said[0].reserved_bytes) == (0, (), 900 * MIB)


def test_what_goes_wrong_in_it_is_not_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    card, said = Card(monkeypatch, history=True), list[ev.LoopOutOfMemory]()

    def fails() -> None:
        raise OSError("no")

    monkeypatch.setattr(torch.cuda.memory, "_snapshot", fails)
    refusals.watch_refusals(in_backward(), said.append, figures)
    card.refuse()
    assert said == []


def test_torch_is_given_one_observer_for_all_loops_of_a_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card = Card(monkeypatch, history=False)
    first, second = list[ev.LoopOutOfMemory](), list[ev.LoopOutOfMemory]()
    done = in_backward()
    refusals.watch_refusals(done, first.append, figures)
    done.finish(whole=True)
    card.refuse()  # between two loops
    refusals.watch_refusals(in_backward(), second.append, figures)
    card.refuse()
    assert (len(card.attached), len(first), len(second)) == (1, 0, 1)


def test_the_last_refusal_is_that_of_the_error_that_ends_it() -> None:
    tracker = in_backward()
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has")
    found = refusals.last_words(tracker, error, "backward", figures(0))
    assert found is not None
    assert (found.bytes_asked, found.peak_bytes) == (2048 * MIB, 800 * MIB)
    assert refusals.last_words(tracker, ValueError("out of memory"), "", None) is None
    assert refusals.last_words(tracker, RuntimeError("shapes"), "", None) is None
