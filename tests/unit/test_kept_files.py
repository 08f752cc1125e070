"""What a run names for other tools is there; without it the tables say nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core import events as ev
from llmprof.core.events.kernel_rows import Coverage
from llmprof.core.report.formats import render
from llmprof.core.spec.experiment import Experiment
from llmprof.core.store.pack import open_view, pack
from llmprof.core.store.redact import pack_redacted
from llmprof.core.store.run import Run, RunStore
from tests.builders.handmade import write
from tests.builders.planted import SHAPE, case

SNAPSHOT, TRACE = "snapshot-0.pickle", "trace-0.json.gz"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A recorded and profiled case, with its snapshot and its trace."""
    run = RunStore(tmp_path / "runs").create("recorded")
    coverage = Coverage(
        activities=1, launches=1, launches_without_kernel=0, to_phase=None, to_op=None,
        to_module=None, backward_to_module=None, outside_steps=0,
    )  # fmt: skip
    write(
        run.journal,
        [
            ev.Segment(boot_id="b", wall_ns=10**18, pid=1, version="0"),
            ev.RunStarted(
                run_id=run.id,
                experiment=Experiment(name="by-hand", models=(SHAPE,)),
                cases=(case(),),
                command=("llmprof", "run"),
            ),
            ev.MemoryTimeline(
                case=0, artifact=None, source="cuda allocator", steps=1, entries=1, peak_bytes=1,
                at_peak={}, before={}, phases=(), largest=(), snapshot=SNAPSHOT,
            ),
            ev.KernelTable(
                case=0, source="cuda", steps=1, rows=(), classes=(), ops=(), modules=(), gemms=(),
                launches=(), coverage=coverage, trace=TRACE,
            ),
            ev.CaseDone(case=0),
            ev.RunDone(outcome="complete"),
        ],
    )  # fmt: skip
    (run.artifacts / SNAPSHOT).write_bytes(b"pickle")
    (run.artifacts / TRACE).write_bytes(b"gzip")
    return run


def named(source: Path) -> list[str]:
    """The files for other tools that the tables of a run name."""
    text = render(open_view(source), "md")
    return [name for name in (SNAPSHOT, TRACE) if f"artifacts/{name}" in text]


def test_they_are_named_in_a_folder_and_in_a_packed_run(run: Run, tmp_path: Path) -> None:
    pack(run, tmp_path / "run.llmprof")
    assert named(run.path) == named(tmp_path / "run.llmprof") == [SNAPSHOT, TRACE]


def test_one_that_was_removed_is_not_named(run: Run) -> None:
    (run.artifacts / SNAPSHOT).unlink()
    assert named(run.path) == [TRACE]


def test_a_copy_for_sharing_names_what_it_holds(run: Run, tmp_path: Path) -> None:
    left_out = pack_redacted(run, tmp_path / "shared.llmprof")
    assert len(left_out) == 2  # a pickle, and what is no JSON
    assert named(tmp_path / "shared.llmprof") == []
    (tmp_path / "alone.jsonl").write_bytes(run.journal.read_bytes())
    assert named(tmp_path / "alone.jsonl") == []
