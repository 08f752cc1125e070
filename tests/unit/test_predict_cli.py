"""`llmprof predict`: JSON, verdicts, mistakes."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from llmprof.cli import predict
from llmprof.cli.main import main
from llmprof.core.catalog.models import load_models
from llmprof.core.predict.command import command_of
from llmprof.core.predict.traced import TracedCase
from llmprof.core.report.formats import render
from llmprof.core.spec.case import Case
from llmprof.core.store.journal import replay
from tests.builders.handmade import whole_run

GIB = 1 << 30
MIB = 1 << 20
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
        assert bool(row["advice"]) == (row["verdict"] != "fits")
    kept, forward = rows[-1]["advice"]  # of 2.7B a T4 has room for forwards alone
    assert kept["changes"]["mode"] == "forward-grad"
    assert forward["changes"] == {"mode": "forward"}


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
    assert "10B · train · ctx 128 · fp32 does not fit on T4: it needs " in text
    assert "No switch, no smaller batch or context and no narrower mode is certain" in text
    assert "what fits" not in text


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


def test_parts_and_tensors_are_in_markdown_csv_and_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """tiny peaks in the optimizer, with no activation alive: their size is everywhere."""
    paths = {end: tmp_path / f"predicted.{end}" for end in ("md", "csv", "json")}
    exports = [f"--export={path}" for path in paths.values()]
    said(capsys, "--model-size=tiny", "--mode=train", "--card=24GiB", *exports)
    parameters = 4 * (2 * 10_000 * 512 + 4 * (4 * 512**2 + 3 * 512 * 1344 + 2 * 512) + 512)
    tokens = 4 * 128
    softmax = 4 * 16 * 128**2
    activations = 4 * (
        4 * (10 * tokens * 512 + 4 * tokens * 1344 + 2 * tokens + softmax)
        + 3 * tokens * 512
        + tokens
    )
    sizes = {
        "parameters": parameters,
        "gradients": parameters,
        "optimizer state": 2 * parameters,
        "activations": activations,
    }

    (found,) = json.loads(paths["json"].read_text())
    assert found["peak_phase"] == "optimizer"
    assert "activations" not in found["breakdown"]
    parts = {part["part"]: part["bytes"] for part in found["parts"]}
    assert {name: parts[name] for name in sizes} == sizes
    tensors = {each["tensor"]: each for each in found["single_tensors"]}
    assert tensors["logits"]["bytes"] == 4 * tokens * 10_000
    assert tensors["logits"]["numbers"] == "4 × 128 × 10000 × 4"

    cells = list(csv.DictReader(io.StringIO(paths["csv"].read_text())))
    for name, size in sizes.items():
        (cell,) = [
            cell for cell in cells
            if (cell["table"], cell["column"]) == ("prediction-parts", name.capitalize())
        ]  # fmt: skip
        assert cell["unit"] == "GiB"
        assert float(cell["value"]) * GIB == pytest.approx(size)
    mib = [cell["value"] for cell in cells
           if (cell["table"], cell["column"]) == ("single-tensors", "Size")]  # fmt: skip
    assert float(mib[0]) == tokens * 512 * 4 / MIB == 1

    text = paths["md"].read_text()
    row = r"fp32 \| +0\.08 \| +0\.08 \| +0\.17 \| +0\.10 \|"
    assert re.search(row, text)
    assert "batch × context × vocabulary × 4 bytes" in text
    assert "…" not in text


def test_parts_are_printed_always_and_single_tensors_when_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--model-size=tiny", "--mode=train", "--card=24GiB")
    assert "Size of each part" in (plain := said(capsys, *options))
    assert "Single tensors" not in plain
    assert "## Single tensors" in said(capsys, *options, "--tensors")


def test_the_whole_step_is_advised_before_a_smaller_one(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--model-size=xl", "--mode=forward-backward", "--context-length=512", "--card=24GiB")
    (row,) = json.loads(said(capsys, *options, "--json"))
    first = row["advice"][0]
    assert first["text"] == "bf16 and SDPA"
    assert first["changes"] == {"precision": "bf16", "attention": "sdpa"}
    assert first["command"] == (
        "llmprof run --model-size xl --context-length 512 --batch-size 4 "
        "--mode forward-backward --precision bf16 --attention sdpa"
    )
    text = said(capsys, *options)
    assert text.index(first["command"]) < text.index("batch 2 instead of 4")


def test_a_configuration_has_one_form_in_a_run_and_in_a_prediction(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = json.loads(render(replay(whole_run(tmp_path / "j")), "json"))
    measured = run["cases"][1]["config"]
    options = ("--model-size=tiny", "--mode=train", "--card=24GiB", "--json")
    (row,) = json.loads(said(capsys, *options))
    assert measured["model"] == "tiny"
    assert measured["shape"]["d_model"] == 512
    assert {**measured, "warmup_steps": 5, "measure_steps": 10} == row["config"]


def test_an_export_that_cannot_be_written_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["predict", "--model-size=tiny", f"--export={tmp_path / 'no' / 'p.md'}"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "there is no folder" in error


def test_a_cpu_has_no_workspace_of_cublas(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--model-size=small", "--mode=train", "--context-length=128", "--json")
    (on_cpu,) = json.loads(said(capsys, *asked, "--device=cpu"))
    for card in (["--card=H100-80GB"], ["--card=H100-80GB", "--device=cpu"]):
        (on_card,) = json.loads(said(capsys, *asked, *card))
        assert on_card["requested_bytes"] - on_cpu["requested_bytes"] == 64 * MIB
        assert on_card["breakdown"]["workspace"] == 64 * MIB
    assert sum(on_cpu["breakdown"].values()) == on_cpu["requested_bytes"]
    assert "workspace" not in on_cpu["breakdown"]
    assert "workspace" not in [part["part"] for part in on_cpu["parts"]]
    for phase, peak in on_cpu["phases"].items():
        assert on_card["phases"][phase] - peak == 64 * MIB
    assert "CUDA's context" not in said(capsys, *asked[:-1], "--device=cpu")
    assert "CUDA's context" in said(capsys, *asked[:-1], "--card=H100-80GB")
