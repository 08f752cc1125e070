"""The main job through the command line, with real workers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from llmprof.core.store.journal import replay
from tests.engine.runs import SMALL, llmprof, newest


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of a grid with a case that cannot run here, exported three ways."""
    folder = tmp_path_factory.mktemp("grid")
    exports = [f"--export={folder / name}" for name in ("r.md", "r.csv", "r.json")]
    done = llmprof(
        folder,
        *exports,
        *SMALL,
        "--mode=forward,forward-grad,forward-backward,train",
        "--precision=fp32,bf16,tf32",
        "--measure-steps=3",
        "--warmup-steps=2",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    return folder


def cases(folder: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((folder / "r.json").read_text("utf-8"))["cases"]
    return found


def test_every_case_is_a_row(grid: Path) -> None:
    statuses = [case["status"] for case in cases(grid)]
    assert statuses.count("ok") == 8
    assert statuses.count("unsupported") == 4


def test_unsupported_says_why_and_what_instead(grid: Path) -> None:
    failures = [case["failure"] for case in cases(grid) if case["status"] == "unsupported"]
    for failure in failures:
        assert isinstance(failure, dict)
        assert "tensor cores" in failure["message"]
        assert failure["instead"].startswith("llmprof run ")


def test_steps_are_those_that_were_asked(grid: Path) -> None:
    view = replay(newest(grid).journal)
    for state in view.cases:
        if state.status != "ok":
            continue
        assert (len(state.warmup), len(state.measured)) == (2, 3)
        assert [step.index for step in state.measured] == [0, 1, 2]
        starts = state.warmup.start_ns() + state.measured.start_ns()
        assert starts == sorted(starts)


def test_phases_sum_to_the_step(grid: Path) -> None:
    view = replay(newest(grid).journal)
    for state in view.cases:
        for step in state.measured:
            known = [value for value in step.device_ms if value is not None]
            assert len(known) == len(state.case.phases)
            assert sum(known) == pytest.approx(step.total_ms)
            assert step.total_ms <= step.wall_ms


def test_what_ran_is_what_was_asked(grid: Path) -> None:
    view = replay(newest(grid).journal)
    for state in view.cases:
        if state.status != "ok":
            continue
        seen, case = state.observed, state.case
        assert seen is not None
        assert seen.logits_dtype == ("bfloat16" if case.precision == "bf16" else "float32")
        assert (seen.batch_size, seen.context_length) == (2, 16)
        assert seen.tf32 is False
        assert seen.parameters_changed is (True if case.mode == "train" else None)
        backward = case.mode in ("forward-backward", "train")
        assert seen.qkv_gradients is (True if backward else None)
        assert state.model is not None
        assert state.model.parameters == case.reference.parameters


def test_csv_and_json_agree(grid: Path) -> None:
    with (grid / "r.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, case in zip(rows, cases(grid), strict=True):
        assert row["status"] == case["status"]
        phases = case["phases"]
        assert isinstance(phases, dict)
        total = phases["total"]
        assert row["total_mean_ms"] == ("" if total is None else repr(total["mean_ms"]))


def test_the_host_was_sampled(grid: Path) -> None:
    view = replay(newest(grid).journal)
    assert view.last_sample is not None
    assert view.last_sample.host.memory_used_bytes
    assert view.last_sample.cards or view.last_sample.cards_reason


def test_memory_of_the_extra_step_is_journalled(grid: Path) -> None:
    view = replay(newest(grid).journal)
    train = next(s for s in view.cases if s.case.mode == "train" and s.status == "ok")
    assert train.memory is not None
    phases = [edge.phase for edge in train.memory.edges]
    assert phases == ["start", *train.case.phases]
    assert train.memory.peak_bytes
    assert train.memory.peak_bytes > 1 << 20


def test_show_and_pack_give_the_same_tables(grid: Path, tmp_path: Path) -> None:
    packed = tmp_path / "run.llmprof"
    assert llmprof(grid, "pack", "last", "-o", str(packed)).returncode == 0
    shown = llmprof(grid, "show", str(packed))
    assert shown.returncode == 0
    assert shown.stdout == (grid / "r.md").read_text("utf-8")
    assert llmprof(grid, "show", "last").stdout == shown.stdout


def test_a_dry_run_lists_the_same_cases_and_measures_nothing(grid: Path) -> None:
    before = llmprof(grid, "runs", "--json").stdout
    done = llmprof(
        grid,
        "run",
        *SMALL,
        "--mode=forward,forward-grad,forward-backward,train",
        "--precision=fp32,bf16,tf32",
        "--dry-run",
    )
    assert done.returncode == 0
    rows = [line for line in done.stdout.splitlines() if "· ctx 16 ·" in line]
    labels = [row.split("|")[2].strip() for row in rows]
    states = replay(newest(grid).journal).cases
    listed = [state.case.label.replace(" · warm-up 2", "") for state in states]
    assert labels == listed
    assert llmprof(grid, "runs", "--json").stdout == before


def test_runs_are_listed(grid: Path) -> None:
    (run,) = json.loads(llmprof(grid, "runs", "--json").stdout)
    assert (run["status"], run["ok"], run["cases"]) == ("complete", 8, 12)
    assert run["id"] == newest(grid).id


def test_a_model_that_cannot_fit_is_a_row_at_once(tmp_path: Path) -> None:
    done = llmprof(
        tmp_path,
        "run",
        "--model-size=10B,tiny",
        "--device=cpu",
        "--mode=train",
        "--context-length=16",
        "--batch-size=1",
        "--measure-steps=2",
        "--warmup-steps=1",
        f"--export={tmp_path / 'r.json'}",
    )
    assert done.returncode == 0, done.stderr
    big, small = cases(tmp_path)
    assert (big["status"], small["status"]) == ("oom", "ok")
    failure = big["failure"]
    assert isinstance(failure, dict)
    assert failure["predicted"] is True
    assert failure["bytes_asked"] >= 16 * 12_832_823_808


def test_running_out_of_memory_is_a_row_and_the_sweep_goes_on(tmp_path: Path) -> None:
    # The causal mask of 300,000 tokens alone is 84 GiB.
    done = llmprof(
        tmp_path,
        "run",
        *SMALL,
        "--context-length=300000,16",
        "--mode=forward",
        "--measure-steps=2",
        "--force",
        f"--export={tmp_path / 'r.json'}",
    )
    assert done.returncode == 0, done.stderr
    big, small = cases(tmp_path)
    assert (big["status"], small["status"]) == ("oom", "ok")
    failure = big["failure"]
    assert isinstance(failure, dict)
    assert failure["predicted"] is False
    assert failure["phase"] == "build"
    assert failure["bytes_asked"] >= 300_000**2
