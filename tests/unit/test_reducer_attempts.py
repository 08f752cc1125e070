"""What a case has measured when a later attempt at it is cut off."""

from __future__ import annotations

from pathlib import Path

from llmprof.core import events as ev
from llmprof.core.store.journal import replay
from llmprof.core.store.run import RunStore
from tests.builders import journals
from tests.builders.journals import SECOND, Writer

STOPPED = ev.Failure(kind="stopped", message="the run was stopped", outside=True)


def attempts(tmp_path: Path, *steps: int, stopped: bool = True) -> list[int]:
    """Measured steps of a case after attempts that were cut off after so many."""
    plan = journals.experiment(("small",), 30)
    run = RunStore(tmp_path).create("bench")
    writer = Writer(run)
    writer.begin(plan)
    seen = []
    for number, count in enumerate(steps):
        if number:
            writer.put(ev.Segment(t=writer.t, boot_id="b", wall_ns=1, pid=1, version="0"))
        writer.case(0, plan.cases()[0], 100.0, count, finish=count == 30)
        if stopped and count < 30:
            writer.put(ev.CaseFailed(t=writer.t, case=0, failure=STOPPED))
        writer.t += SECOND
        seen.append(len(replay(run.journal).cases[0].measured))
    return seen


def test_fewer_steps_of_a_later_attempt_do_not_replace_more(tmp_path: Path) -> None:
    assert attempts(tmp_path / "a", 13, 2) == [13, 13]
    assert attempts(tmp_path / "b", 13, 2, 20, 5) == [13, 13, 20, 20]
    assert attempts(tmp_path / "c", 13, 30) == [13, 30]


def test_an_engine_that_died_leaves_the_longer_attempt_as_well(tmp_path: Path) -> None:
    assert attempts(tmp_path, 13, 2, 1, stopped=False)[-1] in (1, 13)
    assert attempts(tmp_path / "d", 13, 30, stopped=False) == [13, 30]
