"""`llmprof.open`: a run as records, for notebooks; no torch, nothing to change by accident."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import llmprof
from llmprof.core.reading.records import Case
from llmprof.core.spec.axes import AXES
from llmprof.core.store.run import RunStore

FIXTURES = Path(__file__).parent.parent / "fixtures"
PROCESSES = FIXTURES / "processes-h200.llmprof"
TUI = Path(__file__).parents[2] / "tui"

NOTEBOOK = """
import csv, io, sys
import llmprof

run = llmprof.open({path!r})
print(run)
rows = run.rows()
columns = {{name: [row[name] for row in rows] for name in rows[0]}}  # for a data frame
out = io.StringIO()
writer = csv.DictWriter(out, rows[0])
writer.writeheader()
writer.writerows(rows)
slowest = max(run.cases, key=lambda case: case.step.mean_ms)
print(slowest.label, f"{{slowest.step.mean_ms:.1f}} ms")
print(len(run.step_rows()), len(out.getvalue().splitlines()), len(columns["step_mean_ms"]))
(whole,) = run.configurations
print(whole.step.n_processes, f"{{whole.step.mean_ms:.2f}} ± {{whole.step.ci95_ms:.2f}} ms")
print(sorted({{"torch", "textual", "rich", "pynvml"}} & set(sys.modules)))
"""


def test_a_notebook_reads_a_run_without_torch() -> None:
    code = NOTEBOOK.format(path=str(PROCESSES))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Run(name=")
    assert lines[1] == "small · train · ctx 512 · fp32 · process 21 60.5 ms"
    assert lines[2] == "360 25 24"
    assert lines[3] == "24 55.98 ± 0.71 ms"
    assert lines[4] == "[]"


def test_units_stand_in_names_and_rows_are_plain() -> None:
    run = llmprof.open(PROCESSES)
    assert run.machine is not None
    assert (run.machine.device_name, run.experiment) == ("NVIDIA H200", "end-to-end")
    assert run.started is not None
    assert run.started.tzinfo is not None
    (row, *_) = run.rows()
    assert json.loads(json.dumps(row)) == row
    first = run.cases[0]
    assert row["backward_mean_ms"] == first.phases["backward"].mean_ms
    assert row["step_n_steps"] == 10
    assert {"context_length_tokens", "batch_size_sequences", "peak_memory_bytes"} <= row.keys()
    assert all(set(each) == set(row) for each in run.rows())
    step = first.steps[-1].row()
    assert step["total_ms"] == pytest.approx(
        sum(value for name, value in step.items() if name.endswith("_ms")
            and name not in ("total_ms", "wall_ms") and isinstance(value, float)), rel=0.01,
    )  # fmt: skip


def test_every_axis_of_a_case_can_be_read() -> None:
    names = [each.name for each in dataclasses.fields(Case)]
    for axis in AXES:
        assert any(name.startswith(axis.field) for name in names), axis.field


def test_records_are_frozen() -> None:
    run = llmprof.open(PROCESSES)
    with pytest.raises(dataclasses.FrozenInstanceError):
        run.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        run.cases[0].phases["forward"] = run.cases[0].phases["backward"]  # type: ignore[index]


def test_kernels_memory_and_checks() -> None:
    run = llmprof.open(TUI / "demo-kernels.llmprof")
    kernels = run.kernel_rows()
    assert {"case", "phase", "name", "kernel_class", "total_ms_per_step"} <= kernels[0].keys()
    profiled = [case for case in run.cases if case.kernels]
    assert len(profiled) == 2
    recorded = llmprof.open(TUI / "demo-memory.llmprof")
    assert any(case.memory_at_peak_bytes.get("parameters") for case in recorded.cases)
    assert recorded.cases[0].memory[-1].peak_bytes > 0
    warm = llmprof.open(FIXTURES / "warmup-h100.llmprof")
    assert any(check.level == "warning" for case in warm.cases for check in case.checks)


def test_names_and_what_is_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run = RunStore().create("named")
    with zipfile.ZipFile(PROCESSES) as archive:
        run.journal.write_bytes(archive.read("journal.jsonl"))
    assert len(llmprof.open("last").cases) == 24
    assert llmprof.open(run.path).rows() == llmprof.open(run.journal).rows()
    with pytest.raises(FileNotFoundError):
        llmprof.open(tmp_path / "nowhere.llmprof")
    with pytest.raises(LookupError):
        llmprof.open("nobody")
    (tmp_path / "text.llmprof").write_text("no run")
    with pytest.raises(ValueError, match="holds no run"):
        llmprof.open("text.llmprof")
    with pytest.raises(AttributeError):
        _ = llmprof.nothing  # type: ignore[attr-defined]
