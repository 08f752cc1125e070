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
SCRATCH = 33 << 20  # what CUDA's libraries take for a moment in a backward with biases
WIDE = ("--model-arg=width=512", "--model-arg=layers=6", "--model-arg=heads=8")


def run(folder: Path, *arguments: str) -> RunView:
    done = llmprof(folder, "run", *arguments, timeout=360)
    assert done.returncode == 0, done.stderr
    return replay(newest(folder).journal)


@pytest.mark.parametrize(
    ("models", "sizes"),
    [
        ((f"--model={EXAMPLE}:build", *WIDE), ("--context-length=512", "--batch-size=4")),
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
        assert predicted == pytest.approx(recording.requested_peak_bytes, rel=0.01, abs=SCRATCH)


def test_kernels_are_attributed_to_the_modules_of_the_user(tmp_path: Path) -> None:
    view = run(
        tmp_path, "kernels", f"--model={EXAMPLE}:build", *WIDE, "--mode=train",
        "--context-length=512",
    )  # fmt: skip
    table = next(s.kernels for s in view.cases if s.kernels is not None)
    assert table.coverage.to_module is not None
    assert table.coverage.to_module >= 99
    assert {"blocks.*.qkv", "head"} <= {row.module for row in table.rows}
