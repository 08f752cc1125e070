"""`llmprof predict`: JSON, verdicts, mistakes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from llmprof.cli import predict
from llmprof.cli.main import main
from llmprof.core.catalog.models import load_models
from llmprof.core.predict.advice import command_of
from llmprof.core.predict.traced import TracedCase
from llmprof.core.spec.case import Case

NAMES = {"config", "requested_bytes", "allocated_bytes", "breakdown", "verdict"}


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["predict", *arguments]) == 0
    return capsys.readouterr().out


def test_json_has_a_row_a_case_and_card(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(
        said(
            capsys,
            "--model-size=small,2.7B",
            "--mode=train",
            "--context-length=512",
            "--card=H100-80GB,RTX-4090,T4",
            "--json",
        )
    )
    assert [row["card"] for row in rows] == ["H100-80GB", "RTX-4090", "T4"] * 2
    assert [row["verdict"] for row in rows] == ["fits"] * 4 + ["does not fit"] * 2
    for row in rows:
        assert set(row) >= NAMES
        low, high = row["allocated_bytes"]
        assert row["requested_bytes"] <= low <= high
        assert sum(row["breakdown"].values()) == row["requested_bytes"]
        # 2.7B on a T4: not even its forward fits for certain
        assert bool(row["advice"]) == (row["verdict"] != "fits" and row["card"] != "T4")
    known = load_models()["small"]
    assert rows[0]["config"]["model"]["d_model"] == known.d_model


def test_tables_name_card_verdict_and_commands_that_fit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = said(capsys, "--model-size=xl", "--mode=train", "--card=24GiB", "--phases")
    assert "does not fit" in text
    assert "optimizer" in text
    command = command_of(Case(model=load_models()["xl"], mode="forward"))
    assert command.split(" --precision")[0].removesuffix(" --mode forward") in text


def test_a_card_without_bf16_is_said_to_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--model-size=tiny", "--mode=train", "--precision=bf16", "--card=T4")
    assert "T4: bf16 needs compute capability 8.0" in said(capsys, *options)
    (row,) = json.loads(said(capsys, *options, "--json"))
    assert "8.0" in row["unsupported"]


def test_unknown_card_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "--card=GTX-1"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "24GiB" in error


def test_predicting_imports_neither_torch_nor_a_screen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = (
        "import sys; from llmprof.cli.main import main; "
        "main(['predict', '--model-size=tiny', '--card=T4', '--json']); "
        "bad = {'torch', 'textual'} & set(sys.modules); sys.exit(bool(bad))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_differs_in_steps_or_probe_alone_is_predicted_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = json.loads(said(capsys, "kernels", "--card=T4", "--json"))
    assert [row["config"]["mode"] for row in rows] == ["forward", "train"]
    rows = json.loads(said(capsys, "warmup", "--model-size=small", "--json"))
    assert [row["config"]["mode"] for row in rows] == ["forward-backward", "train"]


def test_what_no_change_makes_fit_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--model-size=10B", "--mode=train", "--card=T4")
    assert "10B · train · ctx 128 · fp32 on T4: does not fit, and no smaller batch" in text
    assert "what fits" not in text
    assert " under 0.01 |" in text


def test_attention_alone_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "attention"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "llmprof run attention" in error


def test_a_trace_is_of_the_kind_of_card_that_its_row_is_of(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def trace(cases: list[Case], kind: tuple[int, int]) -> dict[str, TracedCase]:
        asked.append(kind)
        size = {(9, 0): 900, (7, 5): 700, (8, 0): 800}[kind]
        return {case.key: TracedCase(key=case.key, requested_bytes=size) for case in cases}

    monkeypatch.setattr(predict, "trace_cases", trace)
    options = ("--model-size=tiny", "--mode=train", "--trace", "--json")
    rows = json.loads(said(capsys, *options, "--card=T4,H100-80GB"))
    assert [row["traced"]["requested_bytes"] for row in rows] == [700, 900]
    (row,) = json.loads(said(capsys, *options, "--card=24GiB,48GiB"))[:1]
    assert asked[2:] == [(8, 0)]  # what a card known by its memory alone is taken for
    assert row["traced"]["requested_bytes"] == 800
