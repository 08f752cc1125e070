"""What people try when something does not fit or is slow, as experiments at smoke size."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from llmprof.core.worker.attention_functions import refuse_unless_runs
from llmprof.core.worker.component_dtypes import sums_in
from llmprof.core.worker.failures import Unsupported
from llmprof.core.worker.graph_breaks import described, listening
from tests.engine.test_experiments import measured


def table(document: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The rows of a table, by the names of its columns."""
    found = next(each for each in document["tables"] if each["key"] == key)
    names = [column["name"] for column in found["columns"]]
    return [dict(zip(names, row, strict=True)) for row in found["rows"]]


def test_checkpoints_are_timed_recorded_and_profiled(tmp_path: Path) -> None:
    document = measured(tmp_path, "checkpointing", "--smoke", "--device=cpu", "--checkpoint=none,2")
    assert [case["status"] for case in document["cases"]] == ["ok"] * 6
    plain, two = table(document, "checkpointing")
    assert (plain["Blocks a checkpoint"], two["Blocks a checkpoint"]) == ("none", 2)
    assert two["Saved for backward"] < 0.3 * plain["Saved for backward"]
    assert two["Peak of backward"] < plain["Peak of backward"]
    for row in (plain, two):
        assert row["Peak of step"] == pytest.approx(row["Predicted, step"], rel=1e-4)
    assert plain["Recompute"] is None
    assert two["Recompute"] > 0
    assert two["Recompute is"] == "measured"
    profiled = [case["kernels"] for case in document["cases"] if case["kernels"]]
    counts = {g["phase"]: (g["ops"], g["expected_per_step"]) for g in profiled[1]["gemms"]}
    assert counts["backward"][0] == counts["backward"][1] == 2 * (9 * 4 + 1) + 9 * 4
    assert profiled[1]["coverage"]["backward_to_module"] > 90


def test_micro_batches_are_one_step_of_the_same_batch(tmp_path: Path) -> None:
    base = ("kernels", "--smoke", "--device=cpu", "--mode=train", "--batch-size=4")
    for home in ("one", "four"):
        (tmp_path / home).mkdir()
    one = measured(tmp_path / "one", *base)
    four = measured(tmp_path / "four", *base, "--accumulate=4")
    for before, after in zip(one["cases"], four["cases"], strict=True):
        assert after["status"] == "ok"
        assert after["observed"]["batch_size"] == 4
        assert after["observed"]["qkv_gradients"] is True
        losses = [[step["loss"] for step in case["steps"]] for case in (before, after)]
        assert losses[1] == pytest.approx(losses[0], rel=1e-4)
        assert not [v for v in after["verdicts"] if v["level"] == "error"]
    gemms = {g["phase"]: (g["ops"], g["expected_per_step"]) for g in
             four["cases"][1]["kernels"]["gemms"]}  # fmt: skip
    steps = four["cases"][1]["kernels"]["steps"]
    assert gemms["forward"] == (steps * 4 * (9 * 2 + 1), 4 * (9 * 2 + 1))
    assert [part["phase"] for part in four["cases"][1]["timeline"]["parts"]] == [
        "step", "forward", "loss", "backward", "optimizer", "zero_grad"
    ]  # fmt: skip


def test_data_types_and_sums_of_mixed_precision(tmp_path: Path) -> None:
    document = measured(
        tmp_path, "precision", "--smoke", "--device=cpu", "--processes=1", "--precision=fp32,bf16"
    )
    seen = {row["Component"]: row for row in table(document, "data-types")}
    assert {row["fp32"] for row in seen.values()} == {"float32"}
    for half in ("linear output", "attention scores", "logits"):
        assert seen[half]["bf16"] == "bfloat16"
    for wide in ("parameters", "residual stream", "norm statistics", "loss", "gradients",
                 "optimizer state"):  # fmt: skip
        assert seen[wide]["bf16"] == "float32"
    assert [row["Sum"] for row in table(document, "sums")] == ["float32", "bfloat16", "float32"]


def test_a_sum_in_half_precision_stops_growing() -> None:
    wide, half, mixed = sums_in(torch.bfloat16, torch.device("cpu"))
    exact = half.count * half.term
    assert wide.result == pytest.approx(exact, rel=1e-4)
    assert half.result == 4.0
    assert mixed.result == pytest.approx(exact, rel=2e-3)


def test_attention_kernels_have_errors_and_refusals_are_rows(tmp_path: Path) -> None:
    document = measured(
        tmp_path,
        "attention-kernels",
        "--smoke",
        "--device=cpu",
        "--context-length=64",
        "--precision=fp32",
    )
    rows = {row["Kernel"]: row for row in table(document, "attention-kernels")}
    assert set(rows) == {"naive", "SDPA", "flash", "efficient", "cudnn", "math"}
    for name in ("naive", "SDPA", "flash", "math"):
        assert float(rows[name]["Output error"]) < 1e-5
        assert float(rows[name]["Gradient error"]) < 1e-5
        assert rows[name]["Backward"] > 0
    for name in ("efficient", "cudnn"):
        assert rows[name]["Forward"] in ("unsupported", None)
    reasons = [case["failure"]["message"] for case in document["cases"] if case["failure"]]
    assert len(reasons) == 2
    assert all("is for CUDA cards" in reason for reason in reasons)


def test_a_graph_break_is_counted_with_its_reason_and_line() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        torch._dynamo.graph_break()
        return torch.cos(y)

    with listening() as breaks:
        torch.compile(broken, backend="eager")(torch.ones(3))
    assert breaks.count == 1
    assert breaks.first is not None
    assert " at test_trials.py:" in breaks.first
    assert described("") == ""


def test_compile_has_phases_graphs_and_what_compiling_cost(tmp_path: Path) -> None:
    document = measured(tmp_path, "compile", "--smoke", "--device=cpu", "--mode=forward")
    eager, compiled = table(document, "compile")
    assert (eager["Compile"], compiled["Compile"]) == ("eager", "default")
    assert (compiled["Graphs"], compiled["Breaks"]) == (1, 0)
    assert compiled["Compile + first step"] > 0
    assert compiled["Steps until repaid"]
    assert eager["Graphs"] is None


@pytest.mark.parametrize("words", ["No available kernel. Aborting execution.", "Invalid backend"])
def test_what_torch_says_of_a_kernel_it_does_not_take_is_a_refusal(words: str) -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        warnings.warn("Flash attention kernel not used because:", stacklevel=1)
        warnings.warn("Expected half. Got float (Triggered internally at x.h)", stacklevel=1)
        raise RuntimeError(words)

    one = torch.zeros(1)
    with pytest.raises(Unsupported, match=r"SDPA's flash kernel does not .*: Expected half. Got"):
        refuse_unless_runs(attend, "flash", one, one, one)
