"""Journals of version 0.1, which named tables by their row in the field's list."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from llmprof.core import events as ev
from llmprof.core.catalog.experiments import load_experiments
from llmprof.core.report.registry import BUILDERS, tables
from llmprof.core.store.journal import replay
from llmprof.core.store.pack import open_view
from llmprof.core.store.run import RunStore
from tests.builders import journals

FIXTURES = Path(__file__).parent.parent / "fixtures"


def test_a_recording_of_an_earlier_version_names_todays_tables() -> None:
    view = open_view(FIXTURES / "switches-h100.llmprof")
    assert view.experiment is not None
    assert view.experiment.tables[0] == "switches"
    assert {"stability", "failures", "peak-memory"} <= set(view.experiment.tables)
    assert set(view.experiment.tables) <= set(BUILDERS)


def test_a_started_run_among_unreadable_lines_is_translated_too(tmp_path: Path) -> None:
    view = open_view(FIXTURES / "switches-h100.llmprof")
    assert view.experiment is not None
    journal = tmp_path / "journal.jsonl"
    named = msgspec.structs.replace(view.experiment, tables=("M06", "M05"))
    started = ev.RunStarted(t=1, run_id="old", experiment=named, cases=(), command=())
    journal.write_bytes(ev.encode(started) + b"{damaged\n")
    read = replay(journal)
    assert read.damaged_lines == 1
    assert read.experiment is not None
    assert read.experiment.tables == ("failures", "stability")


@pytest.mark.parametrize("damage", [b"", b"{damaged\n"], ids=["whole", "damaged"])
def test_a_case_that_the_user_stopped_was_once_killed(tmp_path: Path, damage: bytes) -> None:
    plan = journals.experiment(("tiny", "small"))
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    for number, outside in enumerate((True, False)):
        writer.case(number, plan.cases()[number], 40.0, 3, finish=False)
        failure = ev.Failure(kind="killed", message="the run was stopped", outside=outside)
        writer.put(ev.CaseFailed(t=writer.t, case=number, failure=failure))
    with run.journal.open("ab") as file:
        file.write(damage)
    assert [state.status for state in replay(run.journal).cases] == ["stopped", "killed"]


def test_every_experiment_of_the_package_names_tables_that_exist() -> None:
    named = {name for each in load_experiments().values() for name in each.get("tables", ())}
    assert named <= set(BUILDERS)


def test_every_table_of_a_recording_has_a_word_for_an_id() -> None:
    for recording in sorted(FIXTURES.glob("*.llmprof")):
        for table in tables(open_view(recording)):
            assert not table.key[:1].isupper(), (recording.name, table.key)
            assert table.number == "" or table.number[0] == "M"
