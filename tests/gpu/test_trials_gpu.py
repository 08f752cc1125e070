"""Attention kernels, compile modes and data types on a card, by the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.engine.test_experiments import measured
from tests.engine.test_trials import table

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card"),
]


def test_attention_kernels_at_two_lengths(tmp_path: Path) -> None:
    document = measured(
        tmp_path,
        "attention-kernels",
        "--d-model=64",
        "--context-length=1024,16384",
        "--precision=bf16",
        "--measure-steps=20",
    )
    rows = {(row["Context"], row["Kernel"]): row for row in table(document, "attention-kernels")}
    for length in (1024, 16384):
        for kernel in ("naive", "SDPA", "flash", "math"):
            row = rows[length, kernel]
            assert row["Backward"] > 0, row
            assert float(row["Output error"]) < 2e-2
            assert float(row["Gradient error"]) < 2e-2
        assert rows[length, "flash"]["Ran as"] == "flash"
    assert rows[16384, "flash"]["Over naive"] > 2
    assert not [v for case in document["cases"] for v in case["verdicts"] if v["level"] == "error"]


def test_kernels_that_a_dtype_does_not_have_are_rows_with_torchs_reason(tmp_path: Path) -> None:
    document = measured(
        tmp_path,
        "attention-kernels",
        "--d-model=64",
        "--context-length=256",
        "--precision=fp32",
        "--measure-steps=5",
        "--variant=flash,efficient",
    )
    flash, efficient = document["cases"]
    assert flash["status"] == "unsupported"
    assert "flash" in flash["failure"]["message"].lower()
    assert efficient["status"] == "ok"


def test_scores_that_do_not_fit_are_a_row_with_an_account(tmp_path: Path) -> None:
    document = measured(
        tmp_path,
        "attention-kernels",
        "--d-model=64",
        "--context-length=262144",
        "--precision=bf16",
        "--measure-steps=2",
        "--variant=naive,flash",
    )
    naive, flash = document["cases"]
    assert naive["status"] == "oom"
    assert flash["status"] == "ok"
    assert flash["observed"]["errors"]["reason"]  # its reference does not fit either
    rows = {row["What"]: row for row in table(document, f"oom-account-{naive['case'] - 1}")}
    assert rows["scores"]["Size"] > rows["sum at the peak"]["Size"] / 2


@pytest.mark.parametrize("mode", ["forward", "train"])
def test_compile_modes_of_small(tmp_path: Path, mode: str) -> None:
    document = measured(
        tmp_path,
        "compile",
        "--model-size=tiny",
        f"--mode={mode}",
        "--compile=none,default,reduce-overhead",
    )
    eager, *compiled = table(document, "compile")
    assert eager["Compile"] == "eager"
    for row in compiled:
        assert row["Graphs"] == 1
        assert row["Breaks"] == 0
        assert row["Compile + first step"] > 1


def test_data_types_of_cudas_autocast(tmp_path: Path) -> None:
    document = measured(
        tmp_path, "precision", "--model-size=tiny", "--processes=1", "--precision=fp32,bf16,fp16"
    )
    seen = {row["Component"]: row for row in table(document, "data-types")}
    assert seen["linear output"]["bf16"] == "bfloat16"
    assert seen["linear output"]["fp16"] == "float16"
    for half in ("bf16", "fp16"):
        assert seen["softmax"][half] == "float32"  # CUDA's autocast computes it in fp32
        assert seen["gradients"][half] == "float32"
