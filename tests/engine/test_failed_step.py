"""What was alive when there was no memory left: from a repeat of the step, in real workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.report.oom_account import oom_account
from llmprof.core.report.table import Figure
from llmprof.core.state.view import CaseState, RunView
from llmprof.core.store.journal import replay
from tests.engine.runs import llmprof, newest

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
