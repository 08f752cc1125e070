"""Predicted against measured: checkpoints of every size, in a large model on an H200.

Predictions are made here, from the recorded cases and the recorded card: those of the recording
would stay right whatever becomes of the model of memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.memory.picture_files import read_points
from llmprof.core.predict.checkpoints import TIE, CheckpointPeaks, best_blocks
from llmprof.core.predict.closed_form import predict
from llmprof.core.report.checkpointing import checkpointing
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.store.pack import open_view
from llmprof.core.system.archive import PackError

RECORDED = Path(__file__).parents[1] / "fixtures" / "checkpointing-large-h200.llmprof"
NEAR = 1e-4  # of a peak: the 0.01 % within which a prediction must be
BLOCKS = (None, 1, 2, 3, 4, 6, 9, 12, 18, "all")
CONTEXTS = (512, 1024)


@pytest.fixture(scope="module")
def view() -> RunView:
    return open_view(RECORDED)


def capability(view: RunView) -> tuple[int, int]:
    assert view.environment is not None
    assert view.environment.capability is not None
    return view.environment.capability


def measured(state: CaseState) -> dict[str, int]:
    """Highest requested bytes of each phase, by the allocator's count."""
    assert state.memory is not None
    found = {edge.phase: edge.requested_peak_bytes for edge in state.memory.edges}
    return {phase: size for phase, size in found.items() if phase != "start" and size is not None}


def state_of(view: RunView, context: int, blocks: object) -> CaseState:
    (found,) = (
        state
        for state in view.cases
        if (state.case.context_length, state.case.checkpoint) == (context, blocks)
    )
    return found


def lowest(view: RunView, context: int, phase: str | None) -> list[object]:
    """Blocks a checkpoint that were measured best, by a phase's peak or by the step's."""
    peaks = {}
    for blocks in BLOCKS:
        found = measured(state_of(view, context, blocks))
        peaks[blocks] = max(found.values()) if phase is None else found[phase]
    limit = min(peaks.values()) * (1 + TIE)
    return [blocks for blocks, peak in peaks.items() if peak <= limit]


def tried(case: Case, found: tuple[CheckpointPeaks, ...]) -> list[object]:
    """Those of the predicted best that the run has; a checkpoint of all blocks is its "all"."""
    layers = case.reference.num_layers
    named = ["all" if each.blocks == layers else each.blocks for each in found]
    return [blocks for blocks in named if blocks in BLOCKS]


def test_the_recording_has_every_number_of_blocks_at_both_contexts(view: RunView) -> None:
    assert [(s.case.context_length, s.case.checkpoint) for s in view.cases] == [
        (context, blocks) for context in CONTEXTS for blocks in BLOCKS
    ]
    assert all(state.status == "ok" for state in view.cases)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("blocks", BLOCKS)
def test_every_phase_peaks_where_it_is_predicted(
    view: RunView, context: int, blocks: object
) -> None:
    state = state_of(view, context, blocks)
    said = predict(state.case, capability(view))
    peaks = measured(state)
    assert set(peaks) == set(state.case.phases)
    assert {each.phase: each.peak for each in said.phases} == pytest.approx(peaks, rel=NEAR)
    assert said.requested_bytes == pytest.approx(max(peaks.values()), rel=NEAR)
    assert peaks[said.peak_phase] == pytest.approx(max(peaks.values()), rel=NEAR)


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_predicted_best_of_the_backward_is_the_measured_best(
    view: RunView, context: int
) -> None:
    case = state_of(view, context, None).case
    best = best_blocks(case, capability(view))
    assert [each.blocks for each in best] == lowest(view, context, "backward") == [1]


@pytest.mark.parametrize(
    ("context", "ties"),
    [(512, [1, 2, 3, 4, 6, 9, 12]), (1024, [1, 2, 3, 4])],
)
def test_the_predicted_best_of_the_step_and_its_ties_are_the_measured_ones(
    view: RunView, context: int, ties: list[int]
) -> None:
    case = state_of(view, context, None).case
    best = best_blocks(case, capability(view), of_step=True)
    assert tried(case, best) == lowest(view, context, None) == ties
    assert {each.top for each in best} == {"optimizer"}


def test_the_table_names_the_best_and_what_ties_with_it(view: RunView) -> None:
    table = checkpointing(view)
    assert table is not None
    text = " ".join(table.notes)
    for context in CONTEXTS:
        where = f"large, context {context}"
        assert f"{where}, predicted: 1 block a checkpoint is best for the peak of the bac" in text
        assert f"{where}, measured: 1 block a checkpoint has the lowest peak of the bac" in text
    four = ", ".join(f"{each} blocks a checkpoint" for each in (2, 3)) + " and 4 blocks a checkp"
    assert f"large, context 1024, predicted: 1 block a checkpoint, {four}oint tie for" in text
    assert f"large, context 1024, measured: 1 block a checkpoint, {four}oint have the" in text


def test_a_timeline_that_was_left_out_of_the_file_is_said_not_to_be_there(view: RunView) -> None:
    kept = [state_of(view, context, each) for context in CONTEXTS for each in (None, 1, "all")]
    for state in view.cases:
        assert state.memory_timeline is not None
        name = str(state.memory_timeline.artifact)
        if state in kept:
            assert len(read_points(RECORDED, name).t_us) > 1000
        else:
            with pytest.raises(PackError, match=f"has no artifacts/{name}"):
                read_points(RECORDED, name)
