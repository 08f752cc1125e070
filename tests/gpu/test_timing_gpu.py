"""The timing probe on a real card."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.catalog.experiments import build_experiment
from llmprof.core.engine.client import Engine, Plan
from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from llmprof.core.store.run import RunStore


def measure(folder: Path, **overrides: object) -> RunView:
    run = RunStore(folder).create("gpu")
    engine = Engine()
    plan = Plan(
        run_dir=str(run.path),
        experiment=build_experiment("end-to-end", overrides),
        lifeline=True,
    )
    engine.run(plan)
    try:
        engine.wait(110)
    finally:
        engine.dismiss()
    return replay(run.journal)


def test_phases_sum_to_the_step(tmp_path: Path) -> None:
    view = measure(tmp_path, models=["small"], context_lengths=[512], modes=["train"])
    (state,) = view.cases
    assert state.status == "ok"
    for step in state.measured:
        known = [value for value in step.device_ms if value is not None]
        assert len(known) == 5
        assert sum(known) == pytest.approx(step.total_ms, abs=1e-6)
        # Device time from first edge to last against wall time between two synchronisations.
        assert abs(step.wall_ms - step.total_ms) <= max(0.02 * step.wall_ms, 0.5)


def test_out_of_memory_is_a_row_and_the_next_case_is_measured(tmp_path: Path) -> None:
    view = measure(
        tmp_path,
        models=["10B", "tiny"],
        modes=["train"],
        measure_steps=3,
        warmup_steps=[1],
        force=True,
    )
    big, small = view.cases
    assert big.status == "oom"
    assert big.failure is not None
    assert not big.failure.predicted
    assert big.failure.bytes_asked
    assert big.failure.phase in ("build", "forward", "loss", "backward", "optimizer")
    assert small.status == "ok"
    assert small.memory is not None
    start = small.memory.edges[0].allocated_bytes
    assert start < 2**30  # nothing of the dead case is left


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_what_ran_is_what_was_asked(tmp_path: Path, precision: str) -> None:
    view = measure(
        tmp_path,
        models=["tiny"],
        modes=["train"],
        precisions=[precision],
        measure_steps=3,
        warmup_steps=[2],
    )
    (state,) = view.cases
    assert state.status == "ok"
    seen = state.observed
    assert seen is not None
    expected = {"bf16": "bfloat16", "fp16": "float16"}.get(precision, "float32")
    assert seen.logits_dtype == expected
    assert seen.tf32 == (precision == "tf32")
    assert seen.parameters_changed
    assert seen.qkv_gradients


def test_memory_of_a_step_is_parameters_gradients_and_state_at_least(tmp_path: Path) -> None:
    view = measure(tmp_path, models=["small"], modes=["train"], optimizers=["fused"])
    (state,) = view.cases
    assert state.memory is not None
    assert state.memory.peak_bytes is not None
    assert state.memory.peak_bytes > 16 * state.case.reference.parameters


def test_the_environment_names_the_card(tmp_path: Path) -> None:
    view = measure(tmp_path, models=["tiny"], modes=["forward"], measure_steps=2)
    environment = view.environment
    assert environment is not None
    assert environment.device == "cuda:0"
    assert environment.driver
    assert environment.memory_total_bytes
    assert environment.memory_total_bytes > 2**30
    assert environment.matmul_tflops
    assert environment.matmul_tflops > 1
