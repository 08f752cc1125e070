"""Models of the user's own in one command: each has a name that tells it from the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.spec.own_function import function_value
from llmprof.core.spec.own_model import arguments, find_own_models
from llmprof.core.spec.shape import SpecError


def named(folder: Path, *files: str) -> list[str]:
    for file in files:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("def build(): pass\ndef other(): pass\n")
    sources = [f"{folder / file}:build" for file in files]
    return [model.name for model in find_own_models(sources, {}, ())]


def test_files_of_one_name_are_told_apart_by_the_nearest_folder_that_differs(
    tmp_path: Path,
) -> None:
    assert named(tmp_path, "a/gpt.py", "b/gpt.py", "a/net.py") == [
        "a/gpt:build", "b/gpt:build", "net:build",
    ]  # fmt: skip
    assert named(tmp_path, "a/x/gpt.py", "b/x/gpt.py") == ["a/x/gpt:build", "b/x/gpt:build"]


def test_names_that_only_differ_beyond_their_length_are_numbered(tmp_path: Path) -> None:
    long = "m" * 80
    names = named(tmp_path, f"{long}/a/gpt.py", f"{long}/b/gpt.py")
    assert names == ["a/gpt:build", "b/gpt:build"]
    names = named(tmp_path, f"a/{long}/gpt.py", f"b/{long}/gpt.py")
    assert len(set(names)) == 2


def test_a_model_named_twice_is_one(tmp_path: Path) -> None:
    assert named(tmp_path, "gpt.py", "gpt.py") == ["gpt:build"]


def test_one_configuration_each_of_two_folders(tmp_path: Path) -> None:
    for folder in ("a/llama", "b/llama"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "config.json").write_text("{}")
    sources = [f"hf:{tmp_path}/{folder}/llama" for folder in "ab"]
    names = [model.name for model in find_own_models(sources, {}, ())]
    assert names == ["a/llama/hf:llama", "b/llama/hf:llama"]


def test_an_argument_is_given_once_or_the_same() -> None:
    assert arguments(["n=2", "n=2", "bias=false"]) == {"n": 2, "bias": False}
    with pytest.raises(SpecError, match="--model-arg n: given twice, as 2 and 3"):
        arguments(["n=2", "n=3"])


@pytest.mark.parametrize("source", ["~zq-nobody/gpt.py:build", "hf:~zq-nobody/llama"])
def test_the_home_of_nobody_is_said(source: str) -> None:
    with pytest.raises(SpecError, match=r"--model ~zq-nobody/.*: Could not determine home"):
        find_own_models([source], {}, ())
    with pytest.raises(SpecError, match=r"--attention ~zq-nobody/a\.py: Could not"):
        function_value("~zq-nobody/a.py:attend", "--attention")
