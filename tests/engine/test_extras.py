"""What a profile or a recording can do without: its failure leaves everything else standing."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from llmprof.core import events as ev
from llmprof.core.spec.case import Case
from llmprof.core.state.view import CaseState
from llmprof.core.store.journal import replay
from llmprof.core.system.atomic import whole_file
from llmprof.core.worker import kernels, memory
from llmprof.core.worker.allocation_recorders import CudaRecorder
from llmprof.core.worker.job import Job
from llmprof.core.worker.kernel_trace import write_trace
from llmprof.core.worker.optional_parts import tried
from llmprof.core.worker.request import WorkerRequest
from llmprof.core.worker.trainer import Trainer
from tests.engine.runs import MINI, SMALL, llmprof, newest

CASE = msgspec.structs.replace(MINI, stacks=True, trace=True)


class Caught(Job):
    """A job that keeps its events."""

    def __init__(self, case: Case, folder: Path) -> None:
        request = WorkerRequest(case=case, index=0, device="cpu", run_dir=str(folder))
        super().__init__(request, case, torch.device("cpu"), -1)
        self.events: list[ev.Event] = []

    def emit(self, *events: ev.Event) -> None:
        self.events.extend(events)

    def tables(self) -> list[ev.KernelTable]:
        return [event for event in self.events if isinstance(event, ev.KernelTable)]


def third(error: Exception) -> Callable[..., Any]:
    """torch's profiler, which raises when it is started for the third time: for the sources."""
    starts, real = iter(range(10)), torch.profiler.profile

    def profile(**options: Any) -> Any:
        if next(starts) == 2:
            raise error
        return real(**options)

    return profile


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("CUPTI is taken"), "the profiler cannot start: CUPTI is taken"),
        (torch.OutOfMemoryError("out of memory"), "out of memory"),
        (KeyError("odd"), "KeyError: 'odd'"),
    ],
)
def test_a_profile_outlives_the_session_that_finds_its_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    if isinstance(error, torch.OutOfMemoryError):
        said = "the profiler cannot start: out of memory"  # it is a RuntimeError
    monkeypatch.setattr(kernels, "profile", third(error))
    job = Caught(CASE, tmp_path)
    kernels.run(job)
    first, *_, last = job.tables()
    assert last.missing == (f"no source lines: {said}",)
    assert last.rows == first.rows
    assert last.trace is not None
    kinds = {type(event) for event in job.events}
    assert {ev.TimelineFacts, ev.AttentionLens, ev.Observed, ev.StepDone} <= kinds


def test_the_tables_are_sent_before_anything_optional_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, sent = Caught(CASE, tmp_path), []

    def look(*_: object) -> None:
        sent.append({type(event) for event in job.events})
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(kernels, "write_trace", look)
    monkeypatch.setattr(kernels, "_sources", look)
    kernels.run(job)
    assert len(sent) == 2
    for kinds in sent:
        assert {ev.KernelTable, ev.TimelineFacts, ev.StepDone, ev.Observed} <= kinds
    full = "No space left on device (ENOSPC)"
    assert job.tables()[-1].missing == (f"no Chrome trace: {full}", f"no source lines: {full}")


def test_no_folder_to_write_to_costs_the_files_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("in the way")
    job = Caught(CASE, tmp_path)
    kernels.run(job)
    table = job.tables()[-1]
    (facts,) = [event for event in job.events if isinstance(event, ev.TimelineFacts)]
    assert facts.strip is None
    assert table.trace is None
    assert [line.split(":")[0] for line in table.missing] == [
        "no timeline on the screen",
        "no Chrome trace",
    ]
    assert all("(EEXIST)" in line or "(ENOTDIR)" in line for line in table.missing)
    assert any(row.source for row in table.rows)


def test_a_recording_outlives_its_files(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("in the way")
    job = Caught(msgspec.structs.replace(CASE, probe="memory"), tmp_path)
    memory.run(job)
    (found,) = [event for event in job.events if isinstance(event, ev.MemoryTimeline)]
    assert found.artifact is None
    assert found.peak_bytes > 4 * MINI.reference.parameters
    recorder = CudaRecorder(Trainer(CASE, job.device), job.device)
    last = memory.with_snapshot(job, found, recorder.dump)
    assert last.snapshot is None
    assert [line.split(":")[0] for line in last.missing] == ["no timeline to draw", "no snapshot"]
    (tmp_path / "artifacts").unlink()
    assert memory.with_snapshot(job, found, recorder.dump).snapshot == "snapshot-0.pickle"
    assert (tmp_path / "artifacts" / "snapshot-0.pickle").exists()


def on_a_small_disk(home: Path, limit: int, *arguments: str) -> tuple[str, CaseState, Path]:
    """A real run whose processes may write no file beyond the limit: as if the disk were full."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = llmprof(home, "run", *arguments, *SMALL, preexec=limited)
    assert done.returncode == 0, done.stderr
    run = newest(home)
    return done.stdout + done.stderr, replay(run.journal).cases[-1], run.artifacts


def test_a_trace_that_does_not_fit_on_the_disk(tmp_path: Path) -> None:
    options = ("--chrome-trace", "--stacks", "--mode=train", "--profile-steps=2")
    out, state, artifacts = on_a_small_disk(tmp_path, 600_000, "kernels", *options)
    assert state.status == "ok"
    assert state.kernels is not None
    assert state.kernels.missing == ("no Chrome trace: File too large (EFBIG)",)
    assert state.kernels.trace is None
    assert any(row.source for row in state.kernels.rows)
    assert "case 2: no Chrome trace: File too large (EFBIG)" in out
    assert "Top CPU ops, forward, one profiled step" in out
    assert [path.name for path in artifacts.iterdir()] == ["timeline-1.npz"]


def test_a_trace_of_which_torch_wrote_only_a_part_is_none(tmp_path: Path) -> None:
    class Torn:
        """Writes half a file and says nothing, as an older kineto did."""

        def save(self, path: str) -> None:
            Path(path).write_text('{"traceEvents": [{"name": "a"}, {"na')

    with pytest.raises(OSError, match="no whole trace"):
        write_trace(Torn(), tmp_path / "trace.json.gz")
    assert not list(tmp_path.iterdir())


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file"
    missing: list[str] = []

    def write(text: str, device: str) -> None:
        with whole_file(target) as draft:
            draft.write_text(text)
            with Path(device).open("w") as full:
                full.write(text)

    tried("file", lambda: write("one", "/dev/full"), missing)
    assert missing == ["no file: No space left on device (ENOSPC)"]
    assert not list(target.parent.iterdir())
    tried("file", lambda: write("two", "/dev/null"), missing)
    tried("file", lambda: write("three", "/dev/full"), missing)
    assert target.read_text() == "two"
    assert len(missing) == 2
    assert len(list(target.parent.iterdir())) == 1


def test_a_case_that_fails_says_so_though_nothing_can_be_printed(tmp_path: Path) -> None:
    code = (
        "import sys, msgspec, torch\n"
        "from llmprof.core.worker.request import WorkerRequest\n"
        "from llmprof.core.worker import main\n"
        "request = msgspec.json.decode(sys.argv[1], type=WorkerRequest)\n"
        "case = msgspec.structs.replace(request.case, probe='nothing')\n"
        "main._measure(request, case, 1, -1)\n"
    )
    request = WorkerRequest(case=CASE, index=0, device="cpu", run_dir=str(tmp_path))
    line = msgspec.json.encode(request).decode()
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, line], stdout=subprocess.PIPE, stderr=full, check=True
        )
    (event,) = [ev.decode(each) for each in done.stdout.splitlines()]
    assert isinstance(event, ev.CaseFailed)
    assert "llmprof.core.worker.nothing" in event.failure.message
