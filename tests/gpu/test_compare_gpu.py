"""On a card: two runs of the same code, what the doctor says, and a run that is taken away."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from llmprof.core.store.pack import open_view
from tests.engine.runs import llmprof, measuring, started, wait_view

CELL = ["--model-size=small", "--context-length=256", "--mode=train", "--device=cuda:0"]


@pytest.mark.timeout(400)
def test_two_runs_of_the_same_code_are_not_told_apart(tmp_path: Path) -> None:
    names = [tmp_path / f"{name}.llmprof" for name in "ab"]
    for path in names:
        done = llmprof(tmp_path, "run", *CELL, "--processes=3", "--pack", str(path))
        assert done.returncode == 0, done.stderr
    found = llmprof(tmp_path, "compare", *map(str, names), "--json")
    assert found.returncode == 0, found.stderr
    (case,) = json.loads(found.stdout)["cases"]
    if case["not_judged"] is None:  # a host whose pace changed between the runs
        assert {part["verdict"] for part in case["parts"]} <= {
            "not distinguished",
            "under 2 % of the step",
        }


def test_the_doctor_sees_the_card(tmp_path: Path) -> None:
    done = llmprof(tmp_path, "doctor", "--json")
    assert done.returncode == 0, done.stdout
    states = {each["what"]: each["state"] for each in json.loads(done.stdout)["findings"]}
    assert states["CUDA"] == "ok"
    assert states["NVML"] in ("ok", "limited")


def test_a_run_that_is_taken_away_is_packed(tmp_path: Path) -> None:
    target = tmp_path / "home.llmprof"
    endless = ["--measure-steps=1000000", "--pack", str(target)]
    with started(tmp_path, "run", *CELL, *endless) as process:
        wait_view(tmp_path, measuring)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 143
    assert open_view(target).outcome == "stopped"
