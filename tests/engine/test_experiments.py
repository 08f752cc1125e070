"""The experiments at smoke size, by the command line, with real workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmprof.core import events as ev
from llmprof.core.store.calibrations import load_ceilings
from llmprof.core.store.journal import replay
from tests.engine.runs import SMALL, llmprof, newest


def measured(home: Path, *arguments: str) -> dict[str, Any]:
    """The JSON of a run, which must have succeeded."""
    done = llmprof(home, "run", *arguments, f"--export={home / 'r.json'}", timeout=115)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads((home / "r.json").read_text("utf-8"))
    return document


def test_attention_raw_and_fused(tmp_path: Path) -> None:
    document = measured(
        tmp_path,
        "attention",
        "--smoke",
        "--device=cpu",
        "--d-model=8,16",
        "--context-length=16",
        "--measure-steps=3",
        "--variant=raw,SDPA",
    )
    kinds = [
        (case["config"]["shape"]["d_model"], case["config"]["attention"])
        for case in document["cases"]
    ]
    assert kinds == [(8, "naive"), (8, "sdpa"), (16, "naive"), (16, "sdpa")]
    for case in document["cases"]:
        assert case["status"] == "ok"
        assert case["phases"]["forward"]["n"] == case["phases"]["backward"]["n"] == 3
        assert case["phases"]["loss"] is None
        assert case["observed"]["qkv_gradients"] is True
        assert case["observed"]["batch_size"] == 2
        assert [edge["phase"] for edge in case["memory"]["edges"]] == [
            "start",
            "forward",
            "backward",
        ]
        assert not [v for v in case["verdicts"] if v["level"] == "error"]
    shown = llmprof(tmp_path, "show").stdout
    assert "## Attention, d=8, batch 2" in shown
    assert "forward (raw) (ms)" in shown


def test_a_compiled_case_is_compiled_cold_and_apart(tmp_path: Path) -> None:
    document = measured(
        tmp_path,
        "attention",
        "--smoke",
        "--device=cpu",
        "--context-length=16",
        "--measure-steps=3",
        "--mode=forward",
        "--variant=compiled",
    )
    (case,) = document["cases"]
    assert case["config"]["compile"] == "default"
    observed = case["observed"]
    assert observed["recompilations"] == 0
    slowest = max(step["wall_ms"] for step in case["steps"])
    assert observed["compile_ms"] > slowest  # in no step, warm-up or measured


def test_interleaved_cases_take_turns(tmp_path: Path) -> None:
    document = measured(
        tmp_path,
        *SMALL,
        "--mode=forward",
        "--attention=naive,sdpa",
        "--interleave",
        "--measure-steps=4",
        "--warmup-steps=1",
    )
    assert [case["status"] for case in document["cases"]] == ["ok", "ok"]
    order = [
        (event.case, event.index)
        for line in newest(tmp_path).journal.read_bytes().splitlines()
        if isinstance(event := ev.decode(line), ev.StepDone) and not event.warmup
    ]
    assert order == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3), (0, 2), (0, 3)]
    view = replay(newest(tmp_path).journal)
    assert [len(state.warmup) for state in view.cases] == [3, 3]  # one again before each turn


def test_interleaved_attentions_take_turns_too(tmp_path: Path) -> None:
    document = measured(
        tmp_path,
        "attention",
        "--smoke",
        "--device=cpu",
        "--context-length=16",
        "--measure-steps=4",
        "--mode=forward",
        "--variant=raw,SDPA",
        "--interleave",
    )
    assert [case["status"] for case in document["cases"]] == ["ok", "ok"]
    order = [
        event.case
        for line in newest(tmp_path).journal.read_bytes().splitlines()
        if isinstance(event := ev.decode(line), ev.StepDone) and not event.warmup
    ]
    assert order == [0, 0, 1, 1, 1, 1, 0, 0]
    assert all(case["observed"]["cpu_wait_percent"] is not None for case in document["cases"])


def test_several_processes_run_in_rounds_and_are_judged_together(tmp_path: Path) -> None:
    document = measured(
        tmp_path,
        *SMALL,
        "--attention=naive,sdpa",
        "--mode=train",
        "--processes=2",
        "--measure-steps=4",
        "--warmup-steps=1",
    )
    order = [(c["config"]["attention"], c["config"]["process"]) for c in document["cases"]]
    assert order == [("naive", 0), ("sdpa", 0), ("sdpa", 1), ("naive", 1)]
    for case in document["cases"]:
        before, after = case["observed"]["host_pace_us"]
        assert before > 0
        assert after > 0
    (table,) = [each for each in document["tables"] if each["key"] == "switches"]
    columns = [column["name"] for column in table["columns"]]
    assert [row[columns.index("Processes")] for row in table["rows"]] == [2, 2]
    verdict = table["rows"][1][columns.index("Verdict")]
    assert verdict.startswith(("forward ", "not judged: the host was", "not judged: failed check"))
    assert table["rows"][1][columns.index("Loss difference")] == "under 0.01"


def test_automatic_steps_say_why_they_ended(tmp_path: Path) -> None:
    document = measured(
        tmp_path,
        *SMALL,
        "--mode=forward",
        "--warmup-steps=auto",
        "--measure-steps=15",
        "--target=90%",
    )
    (case,) = document["cases"]
    seen = case["observed"]
    assert seen["warmup_stop"].startswith(("steady after", "not steady after 300 steps"))
    assert seen["measure_stop"].startswith(("mean known within ", "target not met within"))
    kinds = [step["warmup"] for step in case["steps"]]
    assert kinds.count(True) >= 20
    assert kinds.count(False) >= 10


def test_a_cell_that_cannot_run_here_is_a_row(tmp_path: Path) -> None:
    document = measured(tmp_path, "precision", "--smoke", "--device=cpu", "--precision=fp32,tf32")
    statuses = {case["config"]["precision"]: case["status"] for case in document["cases"]}
    assert statuses == {"fp32": "ok", "tf32": "unsupported"}


def test_experiments_are_listed() -> None:
    done = llmprof(Path("/nonexistent"), "experiments", "--json")
    assert done.returncode == 0, done.stderr
    names = [experiment["name"] for experiment in json.loads(done.stdout)]
    assert {"end-to-end", "warmup", "precision", "switches", "attention", "scaling"} <= set(names)
    shown = llmprof(Path("/nonexistent"), "experiments").stdout
    assert "| attention " in shown


def test_a_calibration_is_kept_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = llmprof(tmp_path, "calibrate", "--device=cpu")
    assert done.returncode == 0, done.stderr
    assert "| fp32 matrix product" in done.stdout
    document = measured(tmp_path, *SMALL, "--mode=forward", "--measure-steps=2")
    ceilings = document["environment"]["ceilings"]
    assert ceilings["matmul_tflops"]["fp32"] > 0
    assert ceilings["copy_gbs"] > 0
    environment = replay(newest(tmp_path).journal).environment
    assert environment is not None
    assert load_ceilings(environment, tmp_path / "calibrations.json") == environment.ceilings
    assert "Of calibrated matmul rate (%)" in llmprof(tmp_path, "show").stdout
