"""Models of the user's own on a card: predicted against measured peaks, attribution."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.predict.traced import trace_cases
from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from tests.engine.runs import llmprof, newest

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA"),
    pytest.mark.timeout(400),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_model.py"
MODELS = Path(__file__).parents[1] / "data" / "own_models" / "models.py"
WIDE = ("--model-arg=width=512", "--model-arg=layers=6", "--model-arg=heads=8")
LARGE = ("--model-arg=width=1024", "--model-arg=layers=12", "--model-arg=heads=16")


def run(folder: Path, *arguments: str) -> RunView:
    done = llmprof(folder, "run", *arguments, timeout=360)
    assert done.returncode == 0, done.stderr
    return replay(newest(folder).journal)


@pytest.mark.parametrize(
    ("models", "sizes"),
    [
        # Large enough that the 32 MiB which CUDA's libraries take for a moment in a bf16 backward
        # with biases, and nobody traces, are less than the bound.
        ((f"--model={EXAMPLE}:build", *LARGE), ("--context-length=1024", "--batch-size=8")),
        (
            (f"--model={MODELS}:nano", f"--model={MODELS}:grouped"),
            ("--context-length=256", "--batch-size=16"),
        ),
    ],
)
def test_the_predicted_peak_is_the_measured_one(
    models: tuple[str, ...], sizes: tuple[str, ...], tmp_path: Path
) -> None:
    view = run(
        tmp_path, "memory", *models, *sizes, "--precision=fp32,bf16",
        "--mode=forward,forward-grad,forward-backward,train",
    )  # fmt: skip
    assert view.environment is not None
    capability = view.environment.capability
    cases = [s.case for s in view.cases if s.case.probe == "memory"]
    traced = trace_cases(cases, capability)
    for state in view.cases:
        recording = state.memory_timeline
        if recording is None:
            continue
        predicted = traced[state.case.key].requested_bytes
        print(state.case.label, predicted, recording.requested_peak_bytes)
        assert predicted == pytest.approx(recording.requested_peak_bytes, rel=0.01)


def test_kernels_are_attributed_to_the_modules_of_the_user(tmp_path: Path) -> None:
    view = run(
        tmp_path, "kernels", f"--model={EXAMPLE}:build", *WIDE, "--mode=train",
        "--context-length=512",
    )  # fmt: skip
    table = next(s.kernels for s in view.cases if s.kernels is not None)
    assert table.coverage.to_module is not None
    assert table.coverage.to_module >= 99
    assert {"blocks.*.qkv", "head"} <= {row.module for row in table.rows}


def test_a_triton_attention_stands_in_the_grid_among_the_kernels_and_in_a_model(
    tmp_path: Path,
) -> None:
    own = f"--attention={MODELS.parent / 'triton_attention.py'}:attend"
    bounds = {"fp32": 1e-4, "bf16": 2e-2}
    for experiment in ("attention", "attention-kernels"):
        view = run(
            tmp_path, experiment, own, "--d-model=64", "--context-length=1000,4096",
            "--precision=fp32,bf16", "--measure-steps=10",
        )  # fmt: skip
        states = [s for s in view.cases if "triton_attention" in s.case.attention]
        assert len(states) >= 4
        for state in states:
            assert state.status == "ok", state.failure
            assert state.observed is not None
            errors = state.observed.errors
            assert errors is not None
            for error in (errors.output, errors.query, errors.key, errors.value):
                assert error is not None
                assert error < bounds[state.case.precision]
    view = run(
        tmp_path, "end-to-end", "--model-size=tiny", f"--attention=naive,{own.partition('=')[2]}",
        "--mode=train", "--context-length=512", "--measure-steps=5",
    )  # fmt: skip
    naive, flash = view.cases
    assert flash.status == "ok"
    assert flash.measured.row(0).loss == pytest.approx(naive.measured.row(0).loss, rel=1e-3)
