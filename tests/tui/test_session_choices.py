"""The set-up pane's choices: checked, said as a command, remembered."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import pytest

from llmprof.cli.options import add_case_options, experiment_from
from llmprof.cli.parser import Parser
from llmprof.cli.run import add_arguments
from llmprof.core.catalog.models import load_models
from llmprof.core.spec.shape import SpecError
from llmprof.tui.session.choices import (
    NUMBER_FIELDS,
    Choices,
    NumberField,
    check_choices,
    choose_experiment,
    command,
    experiments,
    parse_numbers,
    parse_own_models,
)
from llmprof.tui.session.probe_plan import probe_plan
from llmprof.tui.session.remembered import recall, remember

ROOT = Path(__file__).parents[2]
MODELS = load_models()


def checked_experiment(choices: Choices):  # type: ignore[no-untyped-def]
    checked = check_choices(choices, MODELS)
    assert checked.experiment is not None, checked.errors
    return checked.experiment


@pytest.mark.parametrize(
    "choices",
    [
        Choices(),
        Choices(models=("tiny", "xl"), modes=("forward", "train"), precisions=("bf16", "tf32"),
                attentions=("naive", "sdpa"), optimizers=("loop",), compiles=("none", "default"),
                context_length="128, 256", batch_size="1,2", warmup_steps="0,5", measure_steps="3"),
    ],
)  # fmt: skip
def test_the_command_asks_for_the_same_experiment(choices: Choices) -> None:
    experiment = checked_experiment(choices)
    parser = Parser()
    add_case_options(parser)
    words = command(experiment)
    assert words[:2] == ("llmprof", "run")
    assert experiment_from(parser.parse_args(list(words[2:]))) == experiment
    assert check_choices(choices, MODELS).command == words
    assert check_choices(choices, MODELS).line.startswith("llmprof run --model-size")


@pytest.mark.parametrize("smoke", [False, True])
@pytest.mark.parametrize("name", list(experiments()))
def test_every_experiment_and_its_command_measure_the_same(name: str, smoke: bool) -> None:
    if smoke and not experiments()[name][1]:
        pytest.skip("no smoke sizes")
    form = choose_experiment(Choices(), name, MODELS, smoke=smoke)
    for choices in (
        form,
        msgspec.structs.replace(form, precisions=("bf16",), context_length="64,96"),
    ):
        checked = check_choices(choices, MODELS)
        assert checked.experiment is not None, checked.message
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        words = checked.command
        args = parser.parse_args(words[2:])
        assert experiment_from(args, args.experiment) == checked.experiment
        assert checked.experiment.name == name


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "missing"), (",", "missing"), ("1.5", "whole"), ("-1", "whole"), ("x", "whole"),
     ("0", "from 1 to"), ("9" * 20, "from 1 to"), ("\x1b[31m", "whole"), ("٣", "whole")],
)  # fmt: skip
def test_bad_numbers_are_said_in_one_line(text: str, problem: str) -> None:
    checked = check_choices(Choices(context_length=text), MODELS)
    assert checked.experiment is None
    assert problem in checked.message
    assert checked.message.isprintable()
    assert list(checked.errors) == ["context_length"]


def test_number_lists() -> None:
    assert parse_numbers("128, 256,128,", NumberField("c", "Context", 1)) == (128, 256)
    with pytest.raises(ValueError, match="one number"):
        parse_numbers("1,2", NumberField("s", "Steps", 1, many=False))


def test_nothing_ticked_and_too_many_cases() -> None:
    assert "tick" in check_choices(Choices(models=()), MODELS).message
    many = ",".join(str(n) for n in range(1, 12))
    wide = Choices(models=tuple(MODELS), context_length=many, batch_size=many, warmup_steps=many)
    assert "too many" in check_choices(wide, MODELS).message


def test_choices_are_remembered(tmp_path: Path) -> None:
    path = tmp_path / "state" / "screen.json"
    chosen = Choices(models=("tiny", "medium"), measure_steps="7")
    remember(chosen, path)
    assert recall(MODELS, path) == chosen
    assert [p.name for p in path.parent.iterdir()] == ["screen.json"]


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"models": 3}', b'{"modes": ["no"]}'])
def test_unreadable_choices_are_the_defaults(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "screen.json"
    path.write_bytes(data)
    assert recall(MODELS, path) == Choices()
    assert recall(MODELS, tmp_path / "missing") == Choices()


def test_remembered_names_are_cleaned_and_known(tmp_path: Path) -> None:
    path = tmp_path / "screen.json"
    path.write_bytes(msgspec.json.encode(Choices(models=("gone", "tiny"), batch_size="4\x1b[2J")))
    found = recall(MODELS, path)
    assert found.models == ("tiny",)
    assert found.batch_size == "4[2J"


def test_every_number_field_exists() -> None:
    assert {field.name for field in NUMBER_FIELDS} <= set(Choices.__struct_fields__)


def test_words_may_stand_among_the_numbers_of_an_axis() -> None:
    field = next(field for field in NUMBER_FIELDS if field.name == "checkpoint")
    assert parse_numbers("none, 1,all,1", field) == (None, 1, "all")
    with pytest.raises(ValueError, match=r"'most' is not .* from 1 to 10,000,000 or none or all"):
        parse_numbers("most", field)


@pytest.mark.parametrize("text", ["-4", "0", "99999999999", "2.5", "abc"])
def test_what_is_no_number_of_a_field_is_told_what_is(text: str) -> None:
    field = next(field for field in NUMBER_FIELDS if field.name == "context_length")
    with pytest.raises(ValueError, match=f"'{text}' is not a whole number from 1 to 10,000,000"):
        parse_numbers(text, field)


def test_models_of_ones_own_stand_beside_the_presets() -> None:
    source = ROOT / "examples" / "own_model.py"
    checked = check_choices(Choices(own_models=f"{source}:build width=64"), MODELS)
    assert checked.experiment is not None, checked.message
    assert [model.name for model in checked.experiment.models] == [
        "small", "own_model:build width=64",
    ]  # fmt: skip
    words = checked.command
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args(words[2:])
    assert experiment_from(args, args.experiment) == checked.experiment
    alone = check_choices(Choices(models=(), own_models=f"{source}:build"), MODELS)
    assert alone.experiment is not None, alone.message
    words = alone.command
    assert "--model-size" not in words


def test_a_model_of_ones_own_that_is_not_there_is_said_at_its_field() -> None:
    for text, said in (("nowhere.py:build", "No such file"), ("a=1", "before the arguments")):
        checked = check_choices(Choices(own_models=text), MODELS)
        assert said in checked.errors["own_models"]


def test_a_path_with_blanks_stands_in_quotes(tmp_path: Path) -> None:
    file = tmp_path / "my code" / "net.py"
    file.parent.mkdir()
    file.write_text("def build(width=1, data=''): pass")
    for quote in "\"'":
        text = f"{quote}{file}:build{quote}, width=3 data={quote}a b{quote}"
        (model,) = parse_own_models(text)
        assert model.path == str(file)
        assert dict(model.arguments) == {"width": 3, "data": "a b"}
    with pytest.raises(SpecError, match="a quote is not closed"):
        parse_own_models(f'"{file}:build')


@pytest.mark.parametrize("name", ["kernels", "memory"])
@pytest.mark.parametrize("chosen", ["warmup", "kernels", "memory"])
def test_another_look_at_small_sizes_is_as_small(name: str, chosen: str) -> None:
    form = choose_experiment(Choices(), chosen, MODELS, smoke=True)
    assert probe_plan(name, form, MODELS).command == ("llmprof", "run", name, "--smoke")
