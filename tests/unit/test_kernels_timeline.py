"""Busy, idle, gaps, launches; the strip of one step; the attention lens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprof.core.events.kernel_rows import PhaseTimeline
from llmprof.core.kernels import attention_lens, attention_stages, range_names
from llmprof.core.kernels import timeline_strip as strip_file
from llmprof.core.kernels.column_files import Limits
from llmprof.core.kernels.columns import Kind
from llmprof.core.kernels.tables import class_ids
from llmprof.core.kernels.timeline import find_gaps, timeline, timeline_verdict
from llmprof.core.kernels.timeline_strip import (
    Strip,
    build_strip,
    device_lane,
    launch_lane,
    open_strip,
    save_strip,
)
from tests.builders.kernel_events import PHASES, TINY, Made, recorded, two_phases

ONE = ("forward",)
TWO = ("forward", "backward")
NS = 1e-6  # milliseconds of a nanosecond


def parts(made: Made, phases: tuple[str, ...]) -> dict[str, PhaseTimeline]:
    activities = made.activities(phases)
    return {part.phase: part for part in timeline(activities, class_ids(activities))}


def test_gaps_wait_for_a_launch_only_where_the_next_kernel_was_not_launched() -> None:
    made = Made()
    made.step(0, [10, 900], 1_000, ONE)
    made.launch("a", 20, 100, 100)  # the gap before it: its launch came after the step began
    made.launch("b", 50, 210, 90)  # launched long before the gap from 200 to 210
    made.launch("c", 400, 450, 50)  # launched after the gap began at 300
    gaps = find_gaps(made.activities(ONE), 0, 1_000)
    assert gaps.start.tolist() == [0, 200, 300, 500]
    assert gaps.length.tolist() == [100, 10, 150, 500]
    assert gaps.waiting.tolist() == [True, False, True, False]


def test_figures_of_a_step_by_hand() -> None:
    found = parts(two_phases(), TWO)
    step = found["step"]
    assert step.wall_ms == pytest.approx(2_500 * NS)
    assert step.busy_ms == pytest.approx(770 * NS)
    assert step.work_ms == pytest.approx(770 * NS)
    assert step.kernels_ms == pytest.approx(750 * NS)
    assert step.memory_ops_ms == pytest.approx(20 * NS)
    assert step.gemm_ms == pytest.approx(700 * NS)
    assert step.idle_ms == pytest.approx(1_730 * NS)
    assert step.launches == 3
    assert found["forward"].wall_ms == pytest.approx((1_950 - 1_100) * NS)
    assert found["backward"].wall_ms == pytest.approx((2_900 - 1_950) * NS)
    assert found["backward"].memory_ops_ms == pytest.approx(20 * NS)
    assert found["forward"].launch_gap_median_us == pytest.approx((1_420 - 1_230) * 1e-3)


def test_copies_by_direction() -> None:
    made = Made()
    made.step(0, [10, 900], 1_000, ONE)
    for position, name in enumerate(
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH", "Memcpy DtoD")
    ):
        made.launch(
            name, 20 + position, 100 * (position + 1), 10 * (position + 1), kind=Kind.MEMCPY
        )
    step = parts(made, ONE)["step"]
    assert step.to_device_ms == pytest.approx(10 * NS)
    assert step.to_host_ms == pytest.approx(20 * NS)
    assert step.memory_ops_ms == pytest.approx(30 * NS)
    assert step.kernels_ms == 0


@given(
    st.lists(st.tuples(st.integers(0, 800), st.integers(1, 200), st.booleans()), max_size=20),
)
def test_shares_make_up_the_whole(kernels: list[tuple[int, int, bool]]) -> None:
    made = Made()
    made.step(0, [1, 900], 1_000, ONE)
    for start, duration, copy in kernels:
        made.launch(
            "Memcpy DtoD" if copy else "kernel",
            5,
            start + 10,
            min(duration, 990 - start),
            kind=Kind.MEMCPY if copy else Kind.KERNEL,
        )
    step = parts(made, ONE)["step"]
    shares = step.kernels_ms + step.memory_ops_ms + step.to_device_ms + step.to_host_ms
    assert shares == pytest.approx(step.work_ms)
    assert step.busy_ms <= step.work_ms + 1e-12
    assert step.busy_ms + step.idle_ms == pytest.approx(step.wall_ms)
    assert step.waiting_ms <= step.idle_ms + 1e-12


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [(0.0, "GPU-bound"), (0.1, "partly launch-bound"), (0.3, "launch-bound")],
)
def test_verdict(waiting: float, expected: str) -> None:
    step = parts(two_phases(), TWO)["step"]
    assert (
        timeline_verdict(msgspec.structs.replace(step, waiting_ms=waiting * step.wall_ms))
        == expected
    )
    assert timeline_verdict(msgspec.structs.replace(step, wall_ms=0.0)) == "n/a"


def test_recorded_phases_tile_the_step() -> None:
    activities = recorded()
    step, *phases = timeline(activities, class_ids(activities))
    assert [part.phase for part in phases] == list(PHASES)
    assert 0 < sum(part.wall_ms for part in phases) <= step.wall_ms
    assert sum(part.work_ms for part in phases) == pytest.approx(step.work_ms)
    assert sum(part.kernels_ms for part in phases) == pytest.approx(step.kernels_ms)
    assert sum(part.gemm_ms for part in phases) == pytest.approx(step.gemm_ms)
    assert step.launches == sum(part.launches or 0 for part in phases)
    assert 0 < step.busy_ms <= step.wall_ms
    assert timeline_verdict(step) == "launch-bound"  # 4 layers of 512 on an H100


# The strip.


def test_strip_file_keeps_the_median_step(tmp_path: Path) -> None:
    activities = recorded()
    info = save_strip(activities, class_ids(activities), tmp_path, "timeline-0.npz")
    assert info is not None
    strip = Strip.load(tmp_path / info.file)
    assert len(strip) == info.activities == int((activities.step == info.step).sum())
    assert info.wall_ms == pytest.approx(activities.windows.wall_ns[info.step] * NS)
    assert (np.diff(strip.start) >= 0).all()
    assert strip.start[0] > 0
    assert (strip.start + strip.duration).max() < info.wall_ms / NS
    assert (
        strip.launch_start[strip.launch_start >= 0] < strip.start[strip.launch_start >= 0]
    ).all()
    assert {strip.text(phase) for phase in set(strip.phase.tolist())} == set(PHASES[:4])
    assert "blocks.*.attention.core" in {strip.text(module) for module in strip.module}


@pytest.mark.parametrize(
    ("column", "value"), [("name", -1), ("name", 10_000), ("op", 10_000), ("group", 99)]
)
def test_a_strip_that_points_nowhere_is_refused(tmp_path: Path, column: str, value: int) -> None:
    activities = recorded()
    built = build_strip(activities, class_ids(activities))
    assert built is not None
    broken = getattr(built[1], column).copy()
    broken[0] = value
    replace(built[1], **{column: broken}).save(tmp_path / "strip.npz")
    with pytest.raises(ValueError, match=column):
        Strip.load(tmp_path / "strip.npz")


# The attention lens.


def test_recorded_lens_has_every_stage_both_ways() -> None:
    rows = attention_lens.lens_rows(recorded(), TINY)
    order = [
        attention_stages.QK,
        attention_stages.SCALE_MASK,
        attention_stages.SOFT,
        attention_stages.AV,
    ]
    assert [(row.direction, row.stage) for row in rows] == [
        (direction, stage) for direction in ("forward", "backward") for stage in order
    ]
    for row in rows:
        assert row.device_us > 0
        assert row.kernels >= 1
        assert (row.cpu_us is None) == (row.direction == "backward")
    ratio = attention_stages.softmax_ratio(rows, "forward")
    assert ratio is not None
    assert ratio[1] == pytest.approx(5 / (4 * TINY.reference.head_dim))


def test_lens_time_is_that_of_the_marked_layer_only() -> None:
    activities = recorded()
    core = activities.of_op(activities.tree.place) == activities.tree.places.index(
        "blocks.*.attention.core"
    )
    whole_us = activities.busy[core].sum() / 2 * 1e-3
    lens_us = sum(row.device_us for row in attention_lens.lens_rows(activities, TINY))
    assert lens_us == pytest.approx(whole_us / TINY.reference.num_layers, rel=0.2)


def test_scaling_is_told_from_the_product_within_the_scores() -> None:
    made = Made()
    made.step(0, [10, 5_000], 6_000, ONE)
    made.op(range_names.LENS_RANGE + attention_stages.SCORES, 100, 1_000)
    made.op("aten::matmul", 110, 400)
    product = made.op("aten::bmm", 150, 200)
    made.launch("gemm", 160, 2_000, 700, op=product)
    scale = made.op("aten::div", 600, 300)
    made.launch("mul", 610, 3_000, 90, op=scale)
    rows = {row.stage: row for row in attention_lens.lens_rows(made.activities(ONE), TINY)}
    assert rows[attention_stages.QK].device_us == pytest.approx(0.7)
    assert rows[attention_stages.QK].cpu_us == pytest.approx(0.7)
    assert rows[attention_stages.SCALE_MASK].device_us == pytest.approx(0.09)
    assert rows[attention_stages.SCALE_MASK].cpu_us == pytest.approx(0.3)


def test_work_of_a_stage_by_formula() -> None:
    case = msgspec.structs.replace(TINY, batch_size=2, context_length=8)
    heads, size = case.reference.num_heads, case.reference.head_dim
    flops, moved = attention_stages.stage_work(case, attention_stages.QK, "forward")
    assert flops == 2 * 2 * heads * 8 * 8 * size
    assert moved == 4 * (2 * heads * 8 * 8 + 2 * 2 * heads * 8 * size)
    assert attention_stages.stage_work(case, attention_stages.QK, "backward")[0] == 2 * flops
    half = msgspec.structs.replace(case, precision="bf16")
    assert attention_stages.stage_work(half, attention_stages.QK, "forward") == (flops, moved / 2)
    assert attention_stages.stage_work(case, attention_stages.WHOLE, "backward")[0] == 2.5 * flops
    with pytest.raises(ValueError, match="no such stage"):
        attention_stages.stage_work(case, "other", "forward")


def test_no_marks_no_lens() -> None:
    assert attention_lens.lens_rows(two_phases().activities(TWO), TINY) == ()


def test_lanes_hold_what_lies_in_each_column() -> None:
    made = Made()
    made.step(0, [10, 500, 900], 1_000, TWO)
    made.launch("a", 100, 200, 100)
    made.launch("b", 600, 650, 50)
    activities = made.activities(TWO)
    built = build_strip(activities, class_ids(activities))
    assert built is not None
    strip = built[1]
    lane = device_lane(strip, 0, 1_000, 10)
    assert lane.shares == pytest.approx((0, 0, 1, 0, 0, 0, 0.5, 0, 0, 0))
    assert [strip.text(label) for label in lane.labels] == [
        *(None, None, "forward", None, None, None, "backward", None, None, None)
    ]
    launches = launch_lane(strip, 0, 1_000, 10)
    assert launches.shares == pytest.approx((0, 0.1, 0, 0, 0, 0, 0.1, 0, 0, 0))


@given(st.integers(1, 200), st.floats(0, 0.9), st.floats(0.01, 0.1))
def test_lanes_cover_as_much_as_ran(columns: int, begin: float, span: float) -> None:
    activities = recorded()
    built = build_strip(activities, class_ids(activities))
    assert built is not None
    strip = built[1]
    whole = float((strip.start + strip.duration).max())
    first, last = begin * whole, (begin + span) * whole
    lane = device_lane(strip, first, last, columns)
    covered = sum(lane.shares) * (last - first) / columns
    ends = np.minimum(strip.start + strip.duration, last)
    inside = np.maximum(ends - np.maximum(strip.start, first), 0).sum()
    assert covered == pytest.approx(inside, rel=0.01, abs=100)
    assert all(0 <= share <= 1 for share in lane.shares)


def test_a_strip_is_opened_from_the_runs_artifacts_only(tmp_path: Path) -> None:
    activities = recorded()
    folder = tmp_path / "artifacts"
    folder.mkdir()
    info = save_strip(activities, class_ids(activities), folder, "timeline-0.npz")
    assert info is not None
    assert len(open_strip(folder, info)) == info.activities
    for name in ("../artifacts/timeline-0.npz", str(folder / "timeline-0.npz"), "..", ""):
        with pytest.raises((ValueError, OSError)):
            open_strip(folder, msgspec.structs.replace(info, file=name))


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("start", 2**63 - 1, "beyond all bounds"),
        ("start", -(2**63), "beyond all bounds"),
        ("duration", 2**62, "beyond all bounds"),
        ("duration", -5, "below 0"),
        ("launch_duration", -7, "below 0"),
        ("launch_start", 2**62 + 1, "beyond all bounds"),
    ],
)
def test_a_strip_of_impossible_times_is_refused(
    tmp_path: Path, column: str, value: int, words: str
) -> None:
    activities = recorded()
    built = build_strip(activities, class_ids(activities))
    assert built is not None
    broken = getattr(built[1], column).copy()
    broken[3] = value
    replace(built[1], **{column: broken}).save(tmp_path / "strip.npz")
    with pytest.raises(ValueError, match=rf"strip\.npz: .*{words}"):
        Strip.load(tmp_path / "strip.npz")


def test_a_strip_of_a_thousand_phases_is_refused(tmp_path: Path) -> None:
    activities = recorded()
    built = build_strip(activities, class_ids(activities))
    assert built is not None
    strip = built[1]
    names = tuple(f"phase {number}" for number in range(1_000))
    many = (np.arange(len(strip)) % 1_000).astype(np.int32)
    changed = replace(strip, names=(*strip.names, *names), phase=many)
    changed.save(tmp_path / "strip.npz")
    with pytest.raises(ValueError, match=r"strip\.npz: more than 64 phases"):
        Strip.load(tmp_path / "strip.npz")


def test_a_strip_of_too_many_names_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strip_file, "STRIP_LIMITS", Limits(rows=10_000, names=1_000))
    activities = recorded()
    built = build_strip(activities, class_ids(activities))
    assert built is not None
    replace(built[1], names=(*built[1].names, *([""] * 5_000))).save(tmp_path / "strip.npz")
    with pytest.raises(ValueError, match="more than 1,000 names"):
        Strip.load(tmp_path / "strip.npz")


def test_a_strip_of_another_length_than_the_journal_says_is_refused(tmp_path: Path) -> None:
    activities = recorded()
    info = save_strip(activities, class_ids(activities), tmp_path, "timeline-0.npz")
    assert info is not None
    with pytest.raises(ValueError, match=r"timeline-0\.npz: \d+ activities, not 5"):
        open_strip(tmp_path, msgspec.structs.replace(info, activities=5))


EXTREMES = (-(2**63), -(2**40), -2, -1, 0, 1, 2**31 - 1, 2**40, 2**61, 2**61 + 1, 2**63 - 1)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(strip_file.STRIP_DTYPES)),
            st.integers(0, 400),
            st.sampled_from(EXTREMES),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_strip_is_refused_or_drawn(changes: list[tuple[str, int, int]]) -> None:
    """Whatever the columns hold, there is one kind of error or lanes of shares."""
    activities = recorded()
    built = build_strip(activities, class_ids(activities))
    assert built is not None
    columns = {name: getattr(built[1], name).copy() for name in strip_file.STRIP_DTYPES}
    for column, at, value in changes:
        bounds = np.iinfo(columns[column].dtype)
        columns[column][at] = min(max(value, bounds.min), bounds.max)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "strip.npz"
        replace(built[1], **columns).save(path)
        try:
            strip, refusal = Strip.load(path), ""
        except ValueError as error:
            strip, refusal = built[1], str(error)
    assert not refusal or refusal.startswith("strip.npz: ")
    for lane in (device_lane(strip, 0.0, 3e7, 50), launch_lane(strip, 1e7, 2e7, 7)):
        assert all(0 <= share <= 1 for share in lane.shares)
        assert all(strip.text(label) is None or label >= 0 for label in lane.labels)
