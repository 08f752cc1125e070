"""From raw events to the step, phase, op and module of every activity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprof.core.events.kernel_rows import CLASSES
from llmprof.core.kernels import range_names, tables
from llmprof.core.kernels.attribution import Activities
from llmprof.core.kernels.columns import Kind
from llmprof.core.kernels.gemm_counts import gemm_counts
from llmprof.core.kernels.profile import ProfileError, attribution_coverage, check_complete
from llmprof.core.kernels.tables import class_ids, kernel_rows, launch_sources, share_rows
from llmprof.core.kernels.timeline import launch_counts
from tests.builders.kernel_events import PHASES, TINY, Made, recorded, two_phases

TWO = ("forward", "backward")


def places(activities: Activities) -> list[str | None]:
    labels = activities.tree.places
    found = activities.of_op(activities.tree.place)
    return [labels[place] if place >= 0 else None for place in found]


def test_phase_is_that_of_the_launch_not_of_the_kernel() -> None:
    activities = two_phases().activities(TWO)
    names = [activities.columns.names[name] for name in activities.name]
    assert names[:2] == ["sm90_gemm_tn", "void elementwise_kernel<1>(int)"]
    assert activities.phase.tolist() == [0, 0, 1, 1]


def test_backward_belongs_to_the_module_of_its_forward_op() -> None:
    activities = two_phases().activities(TWO)
    assert places(activities) == ["blocks.*.mlp"] * 4
    assert attribution_coverage(activities).backward_to_module == 100.0


def test_the_last_op_with_a_number_made_the_node() -> None:
    made = Made()
    made.step(0, [10, 500, 900], 1_000, TWO)
    made.op(range_names.MODULE_RANGE + "first", 20, 50)
    made.op("aten::view", 30, 10, sequence=5)  # peeks at the number that mm will draw
    made.op(range_names.MODULE_RANGE + "second", 100, 50)
    made.op("aten::mm", 110, 10, sequence=5)
    made.op("MmBackward0", 600, 50, place=2, sequence=5, forward_thread=1, scope=1)
    back = made.op("aten::mm", 610, 20, place=2)
    made.launch("gemm", 615, 700, 10, op=back)
    assert places(made.activities(TWO)) == ["second"]


def test_gradient_accumulation_and_parts_without_a_module_have_labels() -> None:
    made = Made()
    made.step(0, [10, 100, 500], 600, TWO)
    loose = made.op("aten::add", 20, 10)
    made.launch("a", 22, 40, 5, op=loose)
    made.op("torch::autograd::AccumulateGrad", 200, 50, place=2, scope=1)
    made.op(
        "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 190, 80, place=2
    )
    grad = made.op("aten::add_", 210, 10, place=2)
    made.launch("b", 212, 260, 5, op=grad)
    fill = made.op("aten::fill_", 110, 10)
    made.launch("c", 112, 130, 5, op=fill)
    assert places(made.activities(TWO)) == ["(forward)", "(backward)", "(gradient accumulation)"]


def test_what_cannot_be_placed_is_a_row_and_lowers_the_coverage() -> None:
    made = two_phases()
    made.add("lost_kernel", Kind.KERNEL, 2_950, 50, place=7, correlation=77_777)
    activities = made.activities(TWO)
    rows = {row.full_name: row for row in kernel_rows(activities, class_ids(activities))}
    lost = rows["lost_kernel"]
    assert (lost.phase, lost.op, lost.module) == ("unattributed", None, None)
    share = attribution_coverage(activities)
    assert share.to_phase == pytest.approx(100 * 770 / 820)
    assert share.to_op == pytest.approx(100 * 770 / 820)


def test_a_kernel_without_its_launch_takes_the_time_of_its_op() -> None:
    made = Made()
    made.step(0, [10, 500, 900], 1_000, TWO)
    op = made.op("aten::mm", 600, 20)
    made.add("gemm", Kind.KERNEL, 700, 50, place=7, correlation=55, linked=op)
    assert made.activities(TWO).phase.tolist() == [1]


def test_work_outside_the_steps_is_counted_and_left_out() -> None:
    made = two_phases()
    made.launch("before", 100, 200, 50)
    activities = made.activities(TWO)
    assert activities.outside == 1
    assert "before" not in {row.full_name for row in kernel_rows(activities, class_ids(activities))}


def test_an_op_that_shares_a_runtime_calls_number_is_not_mistaken_for_it() -> None:
    made = Made()
    made.step(0, [10, 500, 900], 1_000, TWO)
    op = made.op("aten::mm", 100, 20)
    made.op("aten::other", 150, 20, correlation=op + 1)
    made.add("cudaLaunchKernel", Kind.RUNTIME, 110, 5, correlation=op + 1, linked=op)
    made.add("gemm", Kind.KERNEL, 200, 50, place=7, correlation=op + 1, linked=op)
    activities = made.activities(TWO)
    assert activities.columns.names[activities.op_name[0]] == "aten::mm"
    assert activities.columns.start[activities.launch[0]] == 110


def test_a_phase_that_is_missing_is_an_error() -> None:
    made = Made()
    made.step(0, [10, 500], 1_000, ("forward",))
    with pytest.raises(ValueError, match="backward"):
        made.activities(TWO)


def test_launches_without_kernels_are_an_error_with_a_cause() -> None:
    made = two_phases()
    op = made.op("aten::mul", 1_500, 50)
    made.add("cudaLaunchKernel", Kind.RUNTIME, 1_510, 10, linked=op)
    activities = made.activities(TWO)
    assert activities.barren == 1
    with pytest.raises(ProfileError, match="1 of 4 kernel launches left no kernel"):
        check_complete(activities, launches_seen=4, activities_seen=4)


@pytest.mark.parametrize(("launches", "words"), [(0, "nothing"), (50, "50 kernel launches and no")])
def test_a_profile_without_kernels_is_an_error_with_a_cause(launches: int, words: str) -> None:
    made = Made()
    made.step(0, [10, 500, 900], 1_000, TWO)
    with pytest.raises(ProfileError, match=words) as caught:
        check_complete(made.activities(TWO), launches_seen=launches, activities_seen=0)
    assert "RestrictProfilingToAdminUsers" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_profile_without_steps_is_an_error() -> None:
    with pytest.raises(ProfileError, match="no step"):
        check_complete(Made().activities(()), launches_seen=0, activities_seen=0)


def test_the_line_that_launched_most_of_a_kernel() -> None:
    made = Made()
    made.step(0, [10, 500, 900], 1_000, TWO)
    for start, line, duration in ((20, "a.py:1 in f", 5), (100, "b.py:2 in g", 50)):
        made.op(range_names.SOURCE_RANGE + line, start, 40)
        op = made.op("aten::mm", start + 5, 10)
        made.launch("gemm", start + 6, start + 20, duration, op=op)
    found = launch_sources(made.activities(TWO))
    assert found == {("forward", "gemm", "aten::mm", "(forward)"): "b.py:2 in g"}


def test_without_a_card_ops_count_by_self_time() -> None:
    made = Made()
    made.step(0, [10, 500, 900], 1_000, TWO)
    made.op(range_names.MODULE_RANGE + "mlp", 20, 400)
    made.op("aten::linear", 30, 300)
    made.op("aten::mm", 50, 200)
    activities = made.activities(TWO, "cpu")
    rows = {row.name: row for row in kernel_rows(activities, class_ids(activities))}
    assert set(rows) == {"aten::linear", "aten::mm"}
    assert rows["aten::linear"].total_ms == pytest.approx(100e-6)
    assert rows["aten::mm"].total_ms == pytest.approx(200e-6)
    assert rows["aten::mm"].module == "mlp"
    assert launch_counts(activities)[0].launches == (0,)


def test_a_user_annotation_is_a_range_and_no_op() -> None:
    made = Made()
    made.step(0, [10, 500, 900], 1_000, TWO)
    made.add("Optimizer.step#AdamW.step", Kind.RANGE, 20, 400)
    made.op("aten::add_", 100, 200)
    activities = made.activities(TWO, "cpu")
    rows = kernel_rows(activities, class_ids(activities))
    assert [row.name for row in rows] == ["aten::add_"]
    assert rows[0].total_ms == pytest.approx(200e-6)
    assert activities.tree.crossings == 0


def test_a_kernel_launched_by_a_range_alone_has_no_op() -> None:
    made = Made()
    made.step(0, [10, 500, 900], 1_000, TWO)
    annotation = made.add("Optimizer.step#AdamW.step", Kind.RANGE, 20, 400)
    made.launch("loose", 30, 50, 10, op=annotation)
    activities = made.activities(TWO)
    (row,) = kernel_rows(activities, class_ids(activities))
    assert (row.op, row.module) == (None, "(forward)")
    assert attribution_coverage(activities).to_op == 0.0


def test_only_the_leaf_of_a_product_is_a_gemm_on_the_cpu() -> None:
    made = Made()
    made.step(0, [10, 500, 900], 1_000, TWO)
    made.op("aten::matmul", 30, 300)
    made.op("aten::mm", 50, 200)
    activities = made.activities(TWO, "cpu")
    groups = {row.name: row.group for row in kernel_rows(activities, class_ids(activities))}
    assert groups == {"aten::mm": "GEMM", "aten::matmul": "other"}


def test_a_rows_origin_is_one_pair_with_its_share() -> None:
    made = Made()
    made.step(0, [10, 500, 900], 1_000, TWO)
    at = 20
    # By time alone "add" and "b" lead, but no kernel of "add" ran in "b".
    for op, module, duration in (("add", "a", 40), ("mul", "b", 35), ("div", "b", 15)):
        made.op(range_names.MODULE_RANGE + module, at, 50)
        made.launch("k", at + 12, 600 + at, duration, op=made.op(f"aten::{op}", at + 10, 20))
        at += 100
    activities = made.activities(TWO)
    (row,) = kernel_rows(activities, class_ids(activities))
    assert (row.op, row.module) == ("aten::add", "a")
    assert row.origin_share == pytest.approx(100 * 40 / 90)


def test_a_kernel_of_two_classes_is_two_rows() -> None:
    made = Made()
    made.step(0, [10, 500, 900], 1_000, TWO)
    for at, module in ((20, "ffn"), (120, "ffn_norm")):
        made.op(range_names.MODULE_RANGE + module, at, 50)
        op = made.op("aten::mul", at + 10, 20)
        made.launch("void elementwise_kernel<1>(int)", at + 12, 600 + at, 30, op=op)
    activities = made.activities(TWO)
    rows = kernel_rows(activities, class_ids(activities))
    assert {(row.group, row.module) for row in rows} == {
        ("elementwise", "ffn"),
        ("norm", "ffn_norm"),
    }
    assert len({row.name for row in rows}) == 1


def test_a_range_that_outlasts_its_encloser_places_nothing() -> None:
    made = Made()
    made.step(0, [10, 500, 900], 1_000, TWO)
    made.op(range_names.MODULE_RANGE + "early", 20, 100)
    made.op(range_names.MODULE_RANGE + "late", 80, 100)  # begins in early, ends after it
    for at in (30, 90, 150):
        made.launch("k", at + 2, 500 + at, 10, op=made.op("aten::add", at, 10))
    activities = made.activities(TWO)
    assert activities.tree.crossings >= 1
    assert places(activities) == ["early", None, None]
    assert attribution_coverage(activities).to_module == pytest.approx(100 / 3)


def test_a_module_that_outlasts_its_phase_places_nothing() -> None:
    made = Made()
    made.op(range_names.STEP_RANGE, 0, 1_000)
    for phase, start in (("forward", 10), ("backward", 500)):
        made.add(
            range_names.PHASE_RANGE + phase, Kind.OP, start, 400, place=3
        )  # marked on another thread
    made.op(range_names.MODULE_RANGE + "long", 300, 300)
    made.launch("k", 322, 700, 10, op=made.op("aten::add", 320, 10))
    assert places(made.activities(TWO)) == [None]


@pytest.mark.parametrize(
    ("edges", "words"),
    [([10, 500, 1_200], "backward"), ([10, 5, 900], "forward")],
    ids=["after its step", "backwards"],
)
def test_phases_that_do_not_lie_in_their_step_are_an_error(edges: list[int], words: str) -> None:
    made = Made()
    made.step(0, edges, 1_000, TWO)
    with pytest.raises(ValueError, match=f"{words} of profiled step 1 is not inside"):
        made.activities(TWO)


def test_steps_that_overlap_are_an_error() -> None:
    made = Made()
    made.step(0, [10, 400, 900], 1_000, TWO)
    made.step(950, [960, 1_400, 1_800], 1_900, TWO)
    with pytest.raises(ValueError, match="before the one before it ended"):
        made.activities(TWO)


# The recorded profile of a card: what must hold whatever the machine.


def test_recorded_gemm_ops_are_the_models() -> None:
    counts = {count.phase: count for count in gemm_counts(recorded(), TINY)}
    assert counts["forward"].ops == (9 * 4 + 1) * counts["forward"].steps
    assert counts["backward"].ops == (18 * 4 + 2) * counts["backward"].steps
    assert all(count.as_expected for count in counts.values())
    assert counts["forward"].kernels is not None
    assert counts["forward"].kernels >= counts["forward"].ops


def test_recorded_coverage() -> None:
    found = attribution_coverage(recorded())
    assert found.launches_without_kernel == 0
    assert found.to_phase == found.to_op == 100.0
    assert found.to_module is not None
    assert found.to_module > 99.9
    assert found.backward_to_module is not None
    assert found.backward_to_module > 99.9


def test_recorded_kernels_are_as_many_as_launches_in_every_step() -> None:
    activities = recorded()
    kernels = int((activities.kind == Kind.KERNEL).sum())
    assert kernels == len(activities.launches)
    for counts in launch_counts(activities):
        assert counts.steady
        assert counts.kernels == counts.launches
    rows = kernel_rows(activities, class_ids(activities))
    assert sum(row.calls for row in rows) == len(activities)


def test_recorded_classes_are_the_sums_of_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    activities = recorded()
    classes = class_ids(activities)
    shares = share_rows(activities, classes, CLASSES)
    for most in (250, 5):  # with 5 most kernels stand in the rows of the rest
        monkeypatch.setattr(tables, "MOST_ROWS", most)
        rows = kernel_rows(activities, classes)
        for share in shares:
            mine = [r for r in rows if (r.phase, r.group) == (share.phase, share.label)]
            assert sum(row.calls for row in mine) == share.calls
            assert sum(row.total_ms for row in mine) == pytest.approx(share.total_ms, rel=1e-12)
        assert {(r.phase, r.group) for r in rows} == {(s.phase, s.label) for s in shares}


def test_recorded_origins_have_their_share_and_everything_nests() -> None:
    activities = recorded()
    assert activities.tree.crossings == 0
    shares = [row.origin_share for row in kernel_rows(activities, class_ids(activities))]
    assert all(share is not None and 0 < share <= 100 for share in shares)
    assert 100.0 in shares


def test_recorded_modules_are_the_models() -> None:
    activities = recorded()
    modules = {
        row.label
        for row in share_rows(
            activities, activities.of_op(activities.tree.place), activities.tree.places
        )
    }
    assert {
        "blocks.*.attention.core",
        "blocks.*.ffn.down",
        "head",
        "(optimizer)",
        "(loss)",
    } <= modules


def test_recorded_phases_lie_within_their_step_in_order() -> None:
    windows = recorded().windows
    assert windows.phases == PHASES
    assert (windows.phase_spans[:, 0, 0] >= windows.step_spans[:, 0]).all()
    assert (windows.phase_spans[:, -1, 1] <= windows.step_spans[:, 1]).all()
    assert (windows.phase_spans[:, 1:, 0] >= windows.phase_spans[:, :-1, 1]).all()


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["gemm_a", "add", "softmax"]), st.integers(1, 500), st.booleans()
        ),
        min_size=1,
        max_size=40,
    )
)
def test_invariants_of_any_profile(kernels: list[tuple[str, int, bool]]) -> None:
    made = Made()
    end = 100 * len(kernels) + 1_000
    made.step(0, [10, end // 2, end], end + 50, TWO)
    at = end
    for position, (name, duration, known) in enumerate(kernels):
        call = 20 + 100 * position
        op = made.op("aten::op", call - 5, 50) if known else 0
        made.launch(name, call, at, duration, op=op)
        at += duration + position % 3
    activities = made.activities(TWO)
    rows = kernel_rows(activities, class_ids(activities))
    total = sum(duration for _, duration, _ in kernels)
    assert sum(row.calls for row in rows) == len(kernels) == len(activities.launches)
    assert sum(row.total_ms for row in rows) == pytest.approx(total * 1e-6)
    for row in rows:
        assert row.calls * row.avg_ms == pytest.approx(row.total_ms)
        assert row.min_ms <= row.avg_ms * (1 + 1e-12)
        assert row.avg_ms <= row.max_ms * (1 + 1e-12)
        assert (row.std_ms is None) == (row.calls == 1)
        mine = [d for n, d, _ in kernels if n == row.full_name]
        assert row.calls <= len(mine)
    shares = share_rows(activities, class_ids(activities), tuple("abcdefghij"))
    assert sum(row.total_ms for row in shares) == pytest.approx(total * 1e-6)
    known_ns = sum(duration for _, duration, known in kernels if known)
    assert attribution_coverage(activities).to_op == pytest.approx(100 * known_ns / total)
    assert np.all(activities.phase >= 0)


def test_without_module_ranges_nothing_is_said_of_modules() -> None:
    made = Made()
    made.step(0, [10, 500, 900], 1_000, TWO)
    made.launch("k", 32, 530, 10, op=made.op("aten::add", 30, 10))
    seen = attribution_coverage(made.activities(TWO), ranges=False)
    assert (seen.to_module, seen.backward_to_module) == (None, None)
    assert seen.to_op == 100.0
