"""The write-ups' experiments on a real card: what must be so by arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.catalog.cards import match_device
from llmprof.core.catalog.experiments import build_experiment
from llmprof.core.engine.client import Engine, Plan
from llmprof.core.lint import lint
from llmprof.core.report.attention import bytes_kept
from llmprof.core.spec.experiment import Experiment
from llmprof.core.state.view import RunView
from llmprof.core.store.calibrations import calibration_experiment
from llmprof.core.store.journal import replay
from llmprof.core.store.run import RunStore


def measure(folder: Path, experiment: Experiment) -> RunView:
    run = RunStore(folder).create("gpu")
    engine = Engine(run.log)
    engine.run(Plan(run_dir=str(run.path), experiment=experiment, lifeline=True))
    try:
        engine.wait(115)
    finally:
        engine.dismiss()
    return replay(run.journal)


def errors(view: RunView) -> list[str]:
    return [v.text for each in lint(view).values() for v in each if v.level == "error"]


def test_attention_keeps_the_scores_and_its_time_grows_with_the_square(tmp_path: Path) -> None:
    overrides = {
        "widths": [64],
        "context_lengths": [4096, 8192],
        "measure_steps": 20,
        "variants": ["raw", "SDPA"],
    }
    view = measure(tmp_path, build_experiment("attention", overrides))
    assert [state.status for state in view.cases] == ["ok"] * 4
    assert errors(view) == []
    short, _, long, fused = view.cases
    assert short.total is not None
    assert long.total is not None
    assert long.total.median / short.total.median == pytest.approx(4, rel=0.2)
    kept = bytes_kept(long)
    assert kept is not None
    softmax = 8 * 8192**2 * 4
    assert softmax <= kept <= 1.05 * softmax + 2 * 8192**2
    less = bytes_kept(fused)
    assert less is not None
    assert less < 0.02 * softmax


def test_an_attention_that_does_not_fit_is_a_cell(tmp_path: Path) -> None:
    overrides = {
        "widths": [16],
        "context_lengths": [65_536, 256],
        "measure_steps": 5,
        "variants": ["raw"],
    }
    view = measure(tmp_path, build_experiment("attention", overrides))
    assert [state.status for state in view.cases] == ["oom", "ok"]
    failure = view.cases[0].failure
    assert failure is not None
    assert failure.phase == "forward"
    assert failure.bytes_asked == pytest.approx(8 * 65_536**2 * 4, rel=0.01)


def test_a_compiled_step_is_cold_apart_and_not_compiled_again(tmp_path: Path) -> None:
    overrides = {"models": ["tiny"], "variants": ["baseline", "torch.compile"]}
    view = measure(tmp_path, build_experiment("switches", overrides))
    assert [state.status for state in view.cases] == ["ok", "ok"]
    assert errors(view) == []
    seen = view.cases[1].observed
    assert seen is not None
    assert seen.recompilations == 0
    assert seen.compile_ms is not None
    assert seen.compile_ms > 1000
    assert max(view.cases[1].warmup.wall_ms()) < seen.compile_ms / 5


def test_tf32_is_on_only_where_it_was_asked(tmp_path: Path) -> None:
    overrides = {"models": ["tiny"], "precisions": ["fp32", "tf32", "bf16"]}
    view = measure(tmp_path, build_experiment("precision", overrides))
    seen = [state.observed.tf32 for state in view.cases if state.observed is not None]
    assert seen == [False, True, False]
    assert errors(view) == []


def test_interleaved_cases_share_the_card(tmp_path: Path) -> None:
    overrides = {"models": ["tiny"], "attentions": ["naive", "sdpa"], "interleave": True}
    view = measure(tmp_path, build_experiment("end-to-end", {**overrides, "modes": ["train"]}))
    assert [state.status for state in view.cases] == ["ok", "ok"]
    one, other = (state.measured.start_ns() for state in view.cases)
    assert one[0] < other[0] < one[-1] or other[0] < one[0] < other[-1]


def test_no_ceiling_is_above_what_is_published(tmp_path: Path) -> None:
    view = measure(tmp_path, calibration_experiment())
    (state,) = view.cases
    assert state.ceilings is not None
    assert view.environment is not None
    card = match_device(view.environment.device_name)
    rates = state.ceilings.matmul_tflops
    assert rates["bf16"] > rates["tf32"] > rates["fp32"] > 1
    assert state.ceilings.copy_gbs is not None
    if card is None:
        pytest.skip(f"{view.environment.device_name} is not in cards.toml")
    assert card.bf16 is not None
    assert 0.4 * card.bf16 < rates["bf16"] < card.bf16
    assert card.bandwidth_gbs is not None
    assert 0.6 * card.bandwidth_gbs < state.ceilings.copy_gbs < card.bandwidth_gbs
