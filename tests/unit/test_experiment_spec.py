from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from llmprof.core.catalog.experiments import build_experiment, load_experiments
from llmprof.core.catalog.models import ALL_MODELS, load_models, select_models
from llmprof.core.spec.case import Case
from llmprof.core.spec.experiment import Experiment, Variant
from llmprof.core.spec.shape import ModelShape, SpecError

COUNTED = {
    "tiny": 22_696_448,
    "small": 128_625_408,
    "medium": 423_183_360,
    "large": 969_411_840,
    "xl": 1_998_235_200,
    "2.7B": 3_406_809_600,
    "xl-2026": 3_406_809_600,
    "10B": 12_832_823_808,
}


@pytest.mark.parametrize(("name", "parameters"), COUNTED.items())
def test_parameters_of_the_presets(name: str, parameters: int) -> None:
    model = load_models()[name]
    assert model.parameters == parameters
    assert model.parameter_tensors == 9 * model.num_layers + 3


def test_all_means_the_six_sizes() -> None:
    assert tuple(model.name for model in select_models(["all"])) == ALL_MODELS
    assert len(select_models(["all", "tiny"])) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 7}, "does not divide"),
        ({"d_model": 0}, "d_model"),
        ({"num_layers": -1}, "num_layers"),
        ({"kv_heads": 5}, "kv_heads"),
        ({"d_model": 48, "num_heads": 16}, "odd"),
    ],
)
def test_shapes_that_cannot_be(change: dict[str, int], message: str) -> None:
    tiny = load_models()["tiny"]
    with pytest.raises(SpecError, match=message):
        msgspec.structs.replace(tiny, **change)


@pytest.mark.parametrize("field", ["context_length", "batch_size", "measure_steps"])
def test_cases_that_cannot_be(field: str) -> None:
    tiny = load_models()["tiny"]
    with pytest.raises(SpecError, match=field.replace("_", "-")):
        msgspec.structs.replace(Case(model=tiny), **{field: 0})


def test_the_key_is_the_whole_configuration() -> None:
    tiny = load_models()["tiny"]
    case = Case(model=tiny)
    assert case.key == Case(model=tiny).key
    changes: list[dict[str, object]] = [
        {"precision": "tf32"},
        {"warmup_steps": 0},
        {"batch_size": 5},
        {"seed": 1},
        {"model": msgspec.structs.replace(tiny, vocab_size=10_001)},
    ]
    assert len({case.key, *(msgspec.structs.replace(case, **c).key for c in changes)}) == 6


def test_an_experiment_expands_to_each_case_once() -> None:
    tiny = load_models()["tiny"]
    experiment = Experiment(
        name="grid",
        models=(tiny,),
        modes=("forward", "train"),
        context_lengths=(64, 128, 64),
        variants=(Variant(), Variant(precision="bf16")),
    )
    cases = experiment.cases()
    assert len(cases) == 2 * 2 * 2
    assert len({case.key for case in cases}) == len(cases)


def test_a_checkpoint_of_more_blocks_than_there_are_is_one_of_all() -> None:
    tiny = load_models()["tiny"]
    experiment = Experiment(name="n", models=(tiny,), checkpoints=(1, 99, "all", 100))
    assert [case.checkpoint for case in experiment.cases()] == [1, "all"]


def test_experiments_of_the_package_are_sound() -> None:
    for name in load_experiments():
        assert build_experiment(name, {}).cases()


def test_an_unknown_experiment_is_named() -> None:
    with pytest.raises(SpecError, match="unknown experiment 'nope'"):
        build_experiment("nope", {})


def write_preset(folder: Path, text: str) -> None:
    (folder / "mine.toml").write_text(text, "utf-8")


def test_a_users_presets_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_PRESETS", str(tmp_path))
    write_preset(tmp_path, "[nano]\nd_model=64\nd_ff=128\nnum_layers=2\nnum_heads=4\n")
    assert load_models()["nano"] == ModelShape(
        name="nano", d_model=64, d_ff=128, num_layers=2, num_heads=4
    )


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        "[a]\nd_model=64",
        "[a]\nd_model='x'\nd_ff=1\nnum_layers=1\nnum_heads=1",
        "[a]\nd_model=64\nd_ff=128\nnum_layers=2\nnum_heads=4\ncolour=1",
        "a=1",
    ],
)
def test_a_bad_preset_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("LLMPROF_PRESETS", str(tmp_path))
    write_preset(tmp_path, text)
    with pytest.raises(SpecError, match=r"mine\.toml") as caught:
        load_models()
    assert "\n" not in str(caught.value)


def test_a_case_survives_json() -> None:
    case = Case(model=load_models()["Llama-3.2-1B"], precision="bf16")
    again = msgspec.json.decode(msgspec.json.encode(case), type=Case)
    assert again == case
    assert json.loads(msgspec.json.encode(case))["model"]["kv_heads"] == 8
