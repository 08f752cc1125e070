"""A user without an entry in the passwd file and without HOME."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from llmprof.cli.main import COMMANDS, main
from llmprof.core.catalog.models import load_models, user_folder
from llmprof.core.store.calibrations import load_ceilings
from llmprof.core.system.homes import NoHome, state_home
from llmprof.tui.session.choices import Choices
from llmprof.tui.session.remembered import recall, remember
from tests.builders import planted


def nobody(number: int) -> pwd.struct_passwd:
    raise KeyError(f"getpwuid(): uid not found: {number}")


@pytest.fixture(autouse=True)
def homeless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "LLMPROF_HOME", "LLMPROF_PRESETS", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "words",
    [
        ("runs",),
        ("show",),
        ("attach",),
        ("stop", "last"),
        ("pack",),
        ("run", "--model-size=tiny", "--device=cpu"),
        ("resume",),
        ("calibrate",),
    ],
    ids=lambda words: words[0],
)
def test_what_needs_a_folder_names_the_variable_to_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert words[0] in COMMANDS
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "set LLMPROF_HOME" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [("presets",), ("experiments",), ("predict", "--card=24GiB")])
def test_what_needs_none_works(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert main(words) == 0
    assert capsys.readouterr().err == ""


def test_what_is_only_kept_for_convenience_is_not_missed() -> None:
    remember(Choices())
    assert recall(load_models()) == Choices()
    assert load_ceilings(planted.CPU) is None


@pytest.mark.parametrize("home", ["", "relative"])
def test_a_home_that_is_none_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("HOME", home)
    assert user_folder().is_absolute()
    try:
        found = state_home()
    except NoHome:
        return
    assert found.is_absolute()


def test_the_variable_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", "/some/where")
    assert state_home() == Path("/some/where")
