"""Wrong names of a file's functions and arguments, said before anything is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core.spec.own_function import function_value
from llmprof.core.spec.own_model import Argument, find_own_model
from llmprof.core.spec.shape import SpecError

FILE = """
class A: pass
class B: pass
class C: pass
class D: pass
class E: pass
class F: pass

def build(n_layer=2, *, context_length, bias=True):
    return A()

def needs(width, device):
    return A()

def any_name(width=1, **others):
    return A()

@decorated
def wrapped(width=1):
    return A()

made = lambda: A()
"""


def refused(
    folder: Path, factory: str, text: str = FILE, arguments: dict[str, Argument] | None = None
) -> str:
    """Why a factory of a file with a text is refused; "" where it is taken."""
    file = folder / "mine.py"
    file.write_text(text)
    try:
        find_own_model(f"{file}:{factory}", arguments or {}, ())
    except SpecError as error:
        return str(error)
    return ""


def test_a_wrong_factory_is_said_with_what_is_there_functions_first(tmp_path: Path) -> None:
    assert refused(tmp_path, "biuld") == (
        "--model mine.py has no function biuld; it has build, needs, any_name, wrapped, A, B; did "
        "you mean build?"
    )
    assert refused(tmp_path, "zzz", "x = 1") == (
        "--model mine.py has no function zzz; it defines no function"
    )


@pytest.mark.parametrize(
    "text",
    [
        "from others import build",
        "from others import *",
        "import others as build",
        "build = make()",
        "if x:\n    def build(): ...",
        "globals()[name] = make",
        "def __getattr__(name): return make",
        "import sys\nsys.modules[__name__] = Lazy()",
        "for build in makers: pass",
        "async def build(): ...",
        "def first():\n    global build\n    build = 1",
    ],
)
def test_what_a_text_does_not_settle_is_left_to_the_worker(text: str, tmp_path: Path) -> None:
    assert refused(tmp_path, "build", text, {"any": 1}) == ""


def test_methods_of_modules_are_no_makers_of_names(tmp_path: Path) -> None:
    text = f"{FILE}\nfor each in A().modules():\n    each.eval()\n"
    assert "has no function biuld" in refused(tmp_path, "biuld", text)


def test_a_file_that_is_no_python_is_said_with_its_line(tmp_path: Path) -> None:
    said = refused(tmp_path, "build", "x = 1\ndef build(:\n    pass\n")
    assert said.startswith("--model mine.py:2: SyntaxError: ")
    assert refused(tmp_path, "build", "x = 1\0").startswith("--model mine.py")


def test_a_wrong_argument_is_said_with_those_there_are(tmp_path: Path) -> None:
    assert refused(tmp_path, "build", arguments={"nlayer": 3}) == (
        "--model-arg nlayer: mine.py:build has no such argument; it has n_layer, context_length, "
        "bias; did you mean n_layer?"
    )
    for factory, name in (("build", "n_layer"), ("build", "context_length"), ("any_name", "x"),
                          ("wrapped", "x"), ("made", "x"), ("A", "x")):  # fmt: skip
        assert refused(tmp_path, factory, arguments={name: 3}) == ""


def test_an_argument_without_a_default_is_asked_for_but_those_that_are_filled_in(
    tmp_path: Path,
) -> None:
    assert refused(tmp_path, "needs") == (
        "--model mine.py:needs: its argument width has no default; give --model-arg width=VALUE"
    )
    assert refused(tmp_path, "needs", arguments={"width": 3}) == ""


def test_a_wrong_attention_is_said(tmp_path: Path) -> None:
    file = tmp_path / "flash.py"
    file.write_text("def attend(q, k, v): ...")
    assert function_value(f"{file}:attend", "--attention").startswith(f"{file}:attend#")
    with pytest.raises(SpecError, match=r"--attention flash\.py has no function atend; it has att"):
        function_value(f"{file}:atend", "--attention")
