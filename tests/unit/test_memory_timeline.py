"""Timelines from allocator events: levels, categories, the peak, what is live there."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llmprof.core.memory.allocator_entries import (
    MOST_FRAMES,
    AllocatorEntry,
    PhaseMark,
    Stacks,
    Trace,
    frame_text,
    own_frame,
    own_line,
    read_snapshot,
    settle,
)
from llmprof.core.memory.kept_timeline import load, save, thin
from llmprof.core.memory.live_blocks import largest_live
from llmprof.core.memory.timeline import Held, Known, base_of, build_timeline, starred
from llmprof.core.predict.byte_levels import (
    ACTIVATIONS,
    CATEGORIES,
    COPIES,
    GRADIENTS,
    PARAMETERS,
    TEMPORARIES,
    WORKSPACE,
)
from llmprof.core.predict.closed_form import predict
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import ModelShape

FIXTURES = Path(__file__).parent.parent / "fixtures"
HELD = (Held("blocks.0.w", 100, PARAMETERS), Held("blocks.1.w", 100, PARAMETERS))
MARKS = [
    PhaseMark(0, "forward", 0, 9),
    PhaseMark(0, "backward", 10, 19),
    PhaseMark(0, "optimizer", 20, 29),
]
STACKS = [
    ("torch/nn/functional.py:9 linear", "worker/model.py:1 forward"),
    ("worker/model.py:2 forward",),
]


def step() -> Trace:
    """A copy and an activation saved, a temporary freed, a gradient kept to the end."""
    entries = [
        AllocatorEntry(1, 1, 40, 0),  # autocast copy
        AllocatorEntry(2, 2, 60, 0),  # activation
        AllocatorEntry(3, 3, 30, 1),  # temporary of the forward
        AllocatorEntry(4, 3, -30),
        AllocatorEntry(11, 4, 80),  # gradient
        AllocatorEntry(12, 5, 10),  # temporary of the backward
        AllocatorEntry(13, 5, -10),
        AllocatorEntry(14, 2, -60),
        AllocatorEntry(15, 1, -40),
        AllocatorEntry(25, 4, -80),
    ]
    return Trace(entries, MARKS, STACKS)


def timeline() -> Any:
    known = Known(({4: "blocks.7.w"},), frozenset((0,)))
    return build_timeline(step(), base_of(HELD, 250), HELD, known)


def test_categories_follow_from_lifetimes() -> None:
    found = {block.start: block.category for block in timeline().blocks}
    assert found == {0: COPIES, 1: ACTIVATIONS, 2: TEMPORARIES, 4: GRADIENTS, 5: TEMPORARIES}


def test_peak_levels_and_phases() -> None:
    made = timeline()
    assert made.base[WORKSPACE] == 50
    assert (made.peak, made.peak_at) == (250 + 40 + 60 + 80 + 10, 5)
    assert [(s.phase, s.peak, s.after) for s in made.spans] == [
        ("forward", 380, 350),
        ("backward", 440, 330),
        ("optimizer", 330, 250),
    ]


def test_categories_sum_to_the_level_at_every_point() -> None:
    rng = random.Random(3)
    live: list[tuple[int, int]] = []
    entries = []
    for t in range(600):
        if live and rng.random() < 0.45:
            address, size = live.pop(rng.randrange(len(live)))
            entries.append(AllocatorEntry(t, address, -size))
        else:
            live.append((1000 + t, rng.randint(1, 99)))
            entries.append(AllocatorEntry(t, *live[-1]))
    marks = [
        PhaseMark(0, "forward", 0, 250),
        PhaseMark(0, "loss", 251, 300),
        PhaseMark(0, "backward", 301, 599),
    ]
    made = build_timeline(Trace(entries, marks), {WORKSPACE: 1}, (), Known())
    total = 1
    for entry, level in zip(entries, made.levels(), strict=True):
        total += entry.size
        assert sum(level) == total
        assert min(level) >= 0
    assert made.peak == max(sum(level) for level in made.levels())


def test_a_free_of_what_was_there_before_lowers_the_unknown() -> None:
    made = build_timeline(
        Trace([AllocatorEntry(1, 77, -20)], MARKS), base_of(HELD, 250), HELD, Known()
    )
    assert made.levels()[-1][WORKSPACE] == 30


def test_largest_names_parameters_gradients_and_lines() -> None:
    found = {
        (live.what, live.category): (live.size, live.count) for live in largest_live(timeline(), 9)
    }
    assert found == {
        ("blocks.*.w", "parameters"): (100, 2),
        ("gradient of blocks.*.w", "gradients"): (80, 1),
        ("model.py:1 forward", "activations"): (60, 1),
        ("model.py:1 forward", "autocast copies"): (40, 1),
        ("autograd", "temporaries"): (10, 1),
    }
    assert [live.what for live in largest_live(timeline(), 1)] == ["blocks.*.w"]


def test_snapshot_is_read_with_phases_frames_and_overflow() -> None:
    torch_frame = {"filename": "/x/site-packages/torch/nn/functional.py", "line": 1, "name": "f"}
    own = {"filename": "/home/me/model.py", "line": 12, "name": "for\x1bward"}
    events = [
        {"action": "alloc", "addr": 8, "size": 5, "time_us": 1, "frames": [torch_frame, own]},
        {"action": "free_requested", "addr": 8, "size": 5, "time_us": 2},
        {"action": "free_completed", "addr": 8, "size": 5, "time_us": 3},
        {"action": "segment_alloc", "addr": 0, "size": 99, "time_us": 3},
    ]
    notes = [
        {"stage": "START", "name": "phase 1 zero_grad", "device": 0, "time_us": 0},
        {"stage": "START", "name": "Optimizer.step", "device": 0, "time_us": 0},
        {"stage": "END", "name": "phase 1 zero_grad", "device": 0, "time_us": 9},
    ]
    snapshot = {"device_traces": [events], "external_annotations": notes}
    trace = read_snapshot(snapshot, 0, 100)
    assert [entry.size for entry in trace.entries] == [5, -5]
    assert trace.stacks == [("torch/nn/functional.py:1 f", "me/model.py:12 forward")]
    assert own_line(trace.stacks[0]) == "model.py:12 forward"
    assert trace.marks == [PhaseMark(1, "zero_grad", 0, 9)]
    assert not trace.overflow
    assert read_snapshot(snapshot, 0, 4).overflow


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/a/lib/python3.11/site-packages/torch/nn/functional.py", "torch/nn/functional.py"),
        ("/src/torch/nn/functional.py", "torch/nn/functional.py"),
        ("/usr/lib/python3.11/contextlib.py", "python3.11/contextlib.py"),
        ("/a/lib/python3.11/site-packages/mine/model.py", "mine/model.py"),
        ("/home/me/work/model.py", "work/model.py"),
        ("model.py", "model.py"),
        ("<string>", "<string>"),
    ],
)
def test_frames_are_named_within_their_package(path: str, shown: str) -> None:
    assert frame_text(path, 3, "f") == f"{shown}:3 f"


def test_frames_of_torch_and_python_alone_are_no_own_frame() -> None:
    assert own_frame(("torch/a.py:1 f", "python3.11/b.py:2 g", "<string>:3 h")) is None
    assert own_frame(()) is None
    assert own_frame(("torch/a.py:1 f", "work/b.py:2 g", "work/c.py:3 h")) == 1


def test_equal_stacks_are_kept_once_and_without_their_outermost_frames() -> None:
    stacks = Stacks()
    deep = [(f"/w/f{n}.py", n, "f") for n in range(MOST_FRAMES + 5)]
    assert [stacks.add(deep), stacks.add(deep[:2]), stacks.add(deep), stacks.add([])] == [
        0,
        1,
        0,
        -1,
    ]
    assert len(stacks.known[0]) == MOST_FRAMES
    assert stacks.known[1] == ("w/f0.py:0 f", "w/f1.py:1 f")


def test_the_largest_come_with_their_stacks() -> None:
    found = {live.what: live.stack for live in largest_live(timeline(), 9)}
    assert found["model.py:1 forward"] == STACKS[0]
    assert found["autograd"] == found["blocks.*.w"] == ()


def test_a_recording_of_which_the_start_is_lost_ends_at_the_right_level() -> None:
    whole = step()
    levels = [250, *(sum(level) for level in timeline().levels())]
    for lost in (3, 6):
        kept = Trace(whole.entries[lost:], list(MARKS), STACKS)
        base = settle(kept, 250, levels[-1])
        assert kept.overflow
        assert base == levels[lost]
        made = build_timeline(kept, base_of(HELD, base), HELD, Known())
        assert [sum(level) for level in made.levels()] == levels[lost + 1 :]
        assert min(min(level) for level in made.levels()) >= 0
    assert [mark.phase for mark in kept.marks] == ["backward", "optimizer"]
    assert not whole.overflow
    assert settle(whole, 250, levels[-1]) == 250
    assert not whole.overflow


def test_alike_names() -> None:
    assert starred("blocks.12.ffn.up.weight") == "blocks.*.ffn.up.weight"
    assert starred("layer2.norm") == "layer2.norm"


def many(count: int) -> Any:
    rng = random.Random(1)
    entries = [AllocatorEntry(t, t, rng.randint(1, 1000)) for t in range(count)]
    entries[count // 3 : count // 3] = [
        AllocatorEntry(count // 3, -1, 10**6),
        AllocatorEntry(count // 3, -1, -(10**6)),
    ]
    return build_timeline(Trace(entries, [PhaseMark(0, "forward", 0, count)]), {}, (), Known())


def test_thinning_keeps_the_peak_and_stays_small() -> None:
    made = many(9000)
    points = thin(made, 500)
    assert len(points.t_us) < 520
    totals = [sum(level) for level in zip(*points.levels, strict=True)]
    assert max(totals) == points.peak == made.peak
    assert points.t_us == sorted(points.t_us)


def test_points_survive_a_file_and_bad_ones_are_refused(tmp_path: Path) -> None:
    points = thin(timeline())
    save(points, tmp_path / "a" / "memory-0.json.gz")
    assert load(tmp_path / "a" / "memory-0.json.gz") == points
    for bad in (b"no", gzip.compress(b"{}"), gzip.compress(b"x" * 100)):
        path = tmp_path / "bad.json.gz"
        path.write_bytes(bad)
        with pytest.raises((OSError, ValueError)):
            load(path)
    short = msgspec.structs.replace(points, levels=points.levels[:-1])
    save(short, tmp_path / "short.json.gz")
    with pytest.raises(ValueError, match="do not match"):
        load(tmp_path / "short.json.gz")
    with pytest.raises(ValueError, match="larger than"):
        load(tmp_path / "a" / "memory-0.json.gz", limit=10)
    assert len(points.levels) == len(CATEGORIES)


def recorded() -> dict[str, Any]:
    """A training step of a small model in bf16 with fused attention, recorded on a card."""
    with gzip.open(FIXTURES / "memory-snapshot-h100.json.gz") as file:
        data: dict[str, Any] = json.load(file)
    return data


def test_a_real_recording_reaches_the_allocators_peak_to_the_byte() -> None:
    data = recorded()
    trace = read_snapshot(data["snapshot"], 0, 200_000)
    made = build_timeline(trace, base_of((), data["base"]), (), Known())
    assert made.peak == data["requested_peak"]
    assert [span.phase for span in made.spans] == [
        "forward",
        "loss",
        "backward",
        "optimizer",
        "zero_grad",
    ]
    assert abs(made.spans[-1].after - data["base"]) <= 16  # but for the loss
    assert all(sum(level) >= data["base"] for level in made.levels())


def test_a_real_recordings_phases_are_those_of_the_closed_form() -> None:
    data = recorded()
    made = build_timeline(
        read_snapshot(data["snapshot"], 0, 200_000), base_of((), data["base"]), (), Known()
    )
    shape = ModelShape(
        name="plain", d_model=256, d_ff=704, num_layers=2, num_heads=4, vocab_size=1000
    )
    case = Case(
        model=shape,
        mode="train",
        precision="bf16",
        attention="sdpa",
        context_length=192,
        batch_size=2,
    )
    predicted = {each.phase: each.peak for each in predict(case).phases}
    assert {span.phase: span.peak for span in made.spans} == pytest.approx(predicted, abs=64)
    lines = {live.what for live in largest_live(made, 50)}
    assert any(line.startswith("model.py:") for line in lines)
    assert not any("functional.py" in line for line in lines)
