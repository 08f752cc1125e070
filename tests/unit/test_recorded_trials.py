"""What recordings of an H200 say: checkpoints, attention kernels, data types."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.report.attention_kernels import attention_kernels
from llmprof.core.report.checkpointing import Measured, checkpointing, recompute
from llmprof.core.report.data_types import data_types
from llmprof.core.report.subject import Subject, subject_of
from llmprof.core.report.table import Figure, Table
from llmprof.core.store.journal import replay
from llmprof.core.store.pack import unpack
from llmprof.core.store.run import Run
from tests.builders.planted import CPU, Times, around, case, one, run, view

FIXTURES = Path(__file__).parents[1] / "fixtures"


def recorded(path: Path, folder: Path) -> Subject:
    run = Run(folder)
    unpack(path, run)
    return subject_of(replay(run.journal))


def column(table: Table, name: str) -> list[object]:
    at = [each.header for each in table.columns].index(name)
    cells = [row[at] for row in table.rows]
    return [cell.value if isinstance(cell, Figure) else cell for cell in cells]


def test_predicted_peaks_of_checkpoints_are_the_measured_ones(tmp_path: Path) -> None:
    table = checkpointing(recorded(FIXTURES / "checkpointing-h200.llmprof", tmp_path))
    assert table is not None
    errors = [each for each in column(table, "Error") if isinstance(each, float)]
    assert len(errors) == 4
    assert errors == pytest.approx([0] * 4, abs=0.01)
    assert not any("No card" in note for note in table.notes)


def test_one_block_a_checkpoint_is_predicted_and_measured_best(tmp_path: Path) -> None:
    table = checkpointing(recorded(FIXTURES / "checkpointing-h200.llmprof", tmp_path))
    assert table is not None
    text = " ".join(table.notes)
    assert "large, context 512, predicted: 1 block a checkpoint is best" in text
    assert "measured: 1 block a checkpoint has the lowest peak of the backward" in text


@pytest.mark.parametrize(
    ("backward", "said"),
    [(60.0, "estimated"), (9.0, "n/a: the forward took longer than the backward")],
)
def test_what_is_part_of_a_backward_is_not_estimated_longer_than_it(
    backward: float, said: str
) -> None:
    """Where steps scatter, the forward may have taken longer than the backward that holds it."""
    times: Times = {"forward": around(20.0), "backward": around(backward)}
    found, how = recompute(Measured(one(case(checkpoint=1), times), None, None))
    assert how == said
    assert (found is None) == (said != "estimated")


def test_what_was_timed_alone_has_no_level_and_groups_are_told_apart() -> None:
    """On a CPU, where a timing follows no tensor."""
    cases = [
        case(checkpoint=blocks, precision=precision)
        for precision in ("fp32", "bf16")
        for blocks in (None, 1)
    ]
    times: Times = {"forward": around(20.0), "backward": around(60.0)}
    events = [event for at, each in enumerate(cases) for event in run(at, each, times)]
    table = checkpointing(subject_of(view(cases, events, CPU)))
    assert table is not None
    assert set(column(table, "Peak of backward")) == {"not recorded"}
    (without,) = (note for note in table.notes if note.startswith("No card"))
    assert "followed" not in without
    told = [note.partition(", predicted")[0] for note in table.notes if ", predicted: " in note]
    assert {each.rpartition(", ")[2] for each in told} == {"fp32", "bf16"}


def test_each_kernel_that_was_asked_for_ran(tmp_path: Path) -> None:
    tables = attention_kernels(recorded(FIXTURES / "attention-kernels-h200.llmprof", tmp_path))
    assert len(tables) == 2
    for table in tables:
        for asked, ran in zip(column(table, "Kernel"), column(table, "Ran as"), strict=True):
            assert asked in (ran, "SDPA")


def test_norms_and_softmax_stay_wide_under_autocast(tmp_path: Path) -> None:
    table, *_ = data_types(recorded(FIXTURES / "precision-h200.llmprof", tmp_path))
    rows = {str(row[0]): row[1:4] for row in table.rows}
    assert rows["linear output"] == ("float32", "bfloat16", "float16")
    assert rows["softmax"] == rows["norm statistics"] == ("float32",) * 3
