"""Journals of version 0.1, which named tables by their row in the field's list."""

from __future__ import annotations

from pathlib import Path

import msgspec

from llmprof.core import events as ev
from llmprof.core.catalog.experiments import load_experiments
from llmprof.core.report.registry import BUILDERS, tables
from llmprof.core.store.journal import replay
from llmprof.core.store.pack import open_view

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


def test_every_experiment_of_the_package_names_tables_that_exist() -> None:
    named = {name for each in load_experiments().values() for name in each.get("tables", ())}
    assert named <= set(BUILDERS)


def test_every_table_of_a_recording_has_a_word_for_an_id() -> None:
    for recording in sorted(FIXTURES.glob("*.llmprof")):
        for table in tables(open_view(recording)):
            assert not table.key[:1].isupper(), (recording.name, table.key)
            assert table.number == "" or table.number[0] == "M"
