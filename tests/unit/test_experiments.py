"""Experiments as data: the package's, a user's, smoke sizes, and what cannot be read."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import cast

import pytest

from llmprof.core.catalog.experiments import build_experiment, load_experiments
from llmprof.core.engine.interleaving import LiveWorker, alternate, batches
from llmprof.core.report.registry import BUILDERS
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import SpecError, attention_shape

NAMES = ("end-to-end", "warmup", "precision", "switches", "attention", "scaling")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LLMPROF_PRESETS", str(tmp_path))
    return tmp_path / "experiments.toml"


def test_the_packages_experiments(own: Path) -> None:
    assert set(NAMES) <= set(load_experiments())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("smoke", [False, True])
def test_each_expands_and_names_tables_that_exist(own: Path, name: str, smoke: bool) -> None:
    experiment = build_experiment(name, {}, smoke=smoke)
    assert experiment.cases()
    assert set(experiment.tables) <= set(BUILDERS)
    assert len({case.key for case in experiment.cases()}) == len(experiment.cases())


def test_warmup_has_the_write_ups_cells(own: Path) -> None:
    cases = build_experiment("warmup", {}).cases()
    assert {case.warmup_steps for case in cases} == {0, 1, 2, 5}
    assert {case.model.name for case in cases} == {"small", "medium", "large"}


def test_switches_go_alone_and_all_together(own: Path) -> None:
    cases = build_experiment("switches", {"models": ["small"], "processes": 1}).cases()
    base = cases[0]

    def changed(case: Case) -> set[str]:
        fields = ("precision", "attention", "optimizer", "compile")
        return {name for name in fields if getattr(case, name) != getattr(base, name)}

    assert [len(changed(case)) for case in cases] == [0, 1, 1, 1, 1, 1, 4]
    assert [case.precision for case in cases[:3]] == ["fp32", "tf32", "bf16"]


def test_compared_cases_run_in_rounds_that_begin_with_another(own: Path) -> None:
    changes = {"models": ["tiny", "small"], "variants": ["baseline", "TF32", "SDPA"]}
    cases = build_experiment("switches", changes).cases()
    kinds = {"fp32naive": "b", "tf32naive": "t", "fp32sdpa": "s"}
    tiny = [case for case in cases if case.model.name == "tiny"]
    assert cases[: len(tiny)] == tuple(tiny)  # what is compared runs together
    order = "".join(kinds[case.precision + case.attention] for case in tiny)
    assert order == "btstsbsbt"
    assert [case.process for case in tiny] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert len({case.key for case in cases}) == 18


def test_only_timed_cases_have_several_processes(own: Path) -> None:
    cases = build_experiment("overhead", {"models": ["tiny"], "processes": 2}).cases()
    assert [(case.probe, case.process) for case in cases] == [
        ("timing", 0), ("timing", 1), ("kernels", 0),
    ]  # fmt: skip


def test_the_attention_grid_is_the_write_ups(own: Path) -> None:
    cases = build_experiment("attention", {}).cases()
    assert len(cases) == 4 * 5 * 3
    assert {case.reference.d_model for case in cases} == {16, 32, 64, 128}
    assert {case.context_length for case in cases} == {256, 1024, 4096, 8192, 16_384}
    assert {case.batch_size for case in cases} == {8}
    assert {case.measure_steps for case in cases} == {100}
    assert {case.phases for case in cases} == {("forward", "backward")}


def test_overrides_go_over_smoke_sizes(own: Path) -> None:
    experiment = build_experiment("attention", {"widths": [8]}, smoke=True)
    assert [model.name for model in experiment.models] == ["d=8"]
    assert experiment.context_lengths == (64, 128)
    experiment = build_experiment("warmup", {"models": ["tiny"]}, smoke=True)
    assert [model.name for model in experiment.models] == ["tiny"]


def test_variants_are_chosen_by_label(own: Path) -> None:
    cases = build_experiment(
        "switches", {"models": ["tiny"], "variants": ["SDPA", "baseline"], "processes": 1}
    ).cases()
    assert [case.attention for case in cases] == ["naive", "sdpa"]
    with pytest.raises(SpecError, match="switches has no variant 'fast'; there are baseline, TF32"):
        build_experiment("switches", {"variants": ["fast"]})
    with pytest.raises(SpecError, match="it has none"):
        build_experiment("end-to-end", {"variants": ["fast"]})


def test_a_users_experiment_beside_the_packages(own: Path) -> None:
    own.write_text(
        '[mine]\nmodels = ["tiny"]\nmodes = ["train"]\nprecisions = ["fp32", "bf16"]\n'
        'tables = ["precision"]\n'
    )
    assert tuple(load_experiments())[-1] == "mine"
    assert set(NAMES) < set(load_experiments())
    experiment = build_experiment("mine", {"context_lengths": [64]})
    assert [case.precision for case in experiment.cases()] == ["fp32", "bf16"]
    with pytest.raises(SpecError, match="mine has no smoke sizes"):
        build_experiment("mine", {}, smoke=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[mine]\nmodes = ['train']", "names no models"),
        ("[mine]\nmodels = ['tiny']\nmodez = 1", "unknown field 'modez'"),
        ("[mine]\nmodels = ['tiny']\n[mine.smoke]\nmodez = 1", "unknown field 'modez'"),
        ("[mine]\nmodels = ['tiny']\nsmoke = 1", "mine: 'smoke' is not a table"),
        ("[mine", "experiments file"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(own: Path, text: str, words: str) -> None:
    own.write_text(text)
    with pytest.raises(SpecError, match=words):
        load_experiments()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"modes": ["sideways"]}, "experiment attention"),
        ({"widths": ["wide"]}, "widths must be whole numbers"),
        ({"widths": [7]}, "odd"),
        ({"target_percent": 0.0}, "--target"),
    ],
)
def test_fields_that_do_not_fit(own: Path, fields: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        build_experiment("attention", fields)


def test_an_attention_shape_has_no_heads() -> None:
    shape = attention_shape(64)
    assert (shape.d_model, shape.head_dim, shape.num_layers) == (64, 64, 1)


def interleaved(**fields: object) -> tuple[Case, ...]:
    return build_experiment("switches", {"models": ["small"], "interleave": True, **fields}).cases()


def test_cases_that_differ_in_switches_take_turns_together(own: Path) -> None:
    cases = interleaved(variants=["baseline", "bf16", "SDPA"], context_lengths=[128, 256])
    assert batches(range(6), cases, None) == [(0, 1, 2), (3, 4, 5)]
    apart = build_experiment("switches", {"models": ["small"], "processes": 1}).cases()
    assert batches(range(3), apart, None) == [(0,), (1,), (2,)]


def test_turns_are_cut_where_memory_would_not_do(own: Path) -> None:
    cases = interleaved(variants=["baseline", "bf16", "SDPA"])
    need = 16 * cases[0].reference.parameters  # fp32 weights, gradients and AdamW's state
    assert batches(range(3), cases, 5 * need) == [(0, 1), (2,)]
    assert batches(range(3), cases, need) == [(0,), (1,), (2,)]
    assert batches((0, 2), cases, 100 * need) == [(0, 2)]


def test_turns_go_there_and_back_until_all_have_ended() -> None:
    left = {"a": 3, "b": 3, "c": 1}
    order: list[str] = []

    def advance(live: LiveWorker) -> bool:
        name = str(live)
        order.append(name)
        left[name] -= 1
        return left[name] > 0

    alternate(cast(list[LiveWorker], ["a", "b", "c"]), advance)
    assert "".join(order) == "abcbaab"


def test_building_experiments_leaves_the_presets_as_they_are() -> None:
    before = copy.deepcopy(load_experiments())
    for name, preset in before.items():
        build_experiment(name, {"seed": 7})
        if "smoke" in preset:
            build_experiment(name, {}, smoke=True)
    load_experiments().clear()
    assert load_experiments() == before
