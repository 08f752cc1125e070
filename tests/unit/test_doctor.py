"""`llmprof doctor`: what is there, what is not, and what that costs."""

from __future__ import annotations

import errno
import importlib.util
import json
import os
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from llmprof.cli.main import main
from llmprof.core.devices.nvml_binding import NEEDS_ROOT
from llmprof.core.events import CardSample, Metric
from llmprof.core.monitor import checkup
from llmprof.core.monitor.checkup import Finding
from llmprof.core.store import lock

CARD = {
    "version": "2.11.0+cu130",
    "cuda_build": "13.0",
    "cuda_available": True,
    "cards": ["NVIDIA H200"],
    "threads": 8,
    "triton": False,
}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither torch nor the driver is asked."""
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(checkup, "_said", lambda: {**CARD, "cuda_available": False, "cards": []})
    monkeypatch.setattr(checkup, "_cards", lambda: ((), "no driver"))


def found(**environment: str) -> dict[str, Finding]:
    return {each.what: each for each in checkup.checkup({**os.environ, **environment})}


def test_the_whole_on_this_machine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    assert main(["doctor", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["can_measure"] is True
    names = [each["what"] for each in said["findings"]]
    assert names.index("torch") < names.index("CUDA") < names.index("NVML")
    for each in said["findings"]:
        assert (each["state"] == "ok") == (each["costs"] == ""), each
    assert not (tmp_path / "home").exists()  # it looks and leaves nothing


def test_without_torch(
    quick: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec

    def hidden(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "torch" else find(name, package)

    def never() -> Any:
        raise AssertionError("torch is asked")

    monkeypatch.setattr(importlib.util, "find_spec", hidden)
    monkeypatch.setattr(checkup, "_said", never)
    assert main(["doctor"]) == 3
    out = capsys.readouterr().out
    assert "missing  torch             not installed" in out
    assert "costs: nothing can be measured here; showing, comparing" in out
    assert "remedy: pip install torch" in out
    assert out.endswith("Nothing can be measured here: torch.\n")


def test_a_torch_that_does_not_load(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "_said", lambda: "it does not load: libcudart.so.13: not there")
    torch = found()["torch"]
    assert (torch.state, torch.blocks) == ("missing", True)
    assert "libcudart" in torch.found


def test_cards_and_torch_that_do_not_agree(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "absent", lambda device: None)
    assert "torch (CUDA 13.0) cannot use it" in found()["CUDA"].found
    monkeypatch.setattr(checkup, "_said", lambda: {**CARD, "cuda_build": None,
                                                   "cuda_available": False})  # fmt: skip
    assert "built without CUDA" in found()["CUDA"].found
    monkeypatch.setattr(checkup, "_said", lambda: CARD)
    said = found(CC="no-such-compiler")
    assert (said["CUDA"].state, said["triton"].state) == ("ok", "missing")
    assert said["C compiler"].state == "missing"
    assert "C++ compiler" not in said


def test_what_the_driver_keeps_from_a_user(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    card = CardSample(index=0, name="NVIDIA H200", metrics={"pcie_rx": Metric(None, NEEDS_ROOT)})
    monkeypatch.setattr(checkup, "_cards", lambda: ((card,), ""))
    nvml = found()["NVML"]
    assert (nvml.state, nvml.found) == ("limited", "NVIDIA H200; not for this user: pcie_rx")
    denied = CardSample(index=0, state="lost", denied=True)
    monkeypatch.setattr(checkup, "_cards", lambda: ((denied,), ""))
    assert "refuses access" in found()["NVML"].found


def test_compilers(quick: None) -> None:
    assert found(CXX="no-such-compiler")["C++ compiler"].state == "missing"
    assert found(CXX="false")["C++ compiler"].state == "missing"
    assert found(CXX="")["C++ compiler"].state == "missing"


def test_a_home_that_cannot_be_written(
    quick: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LLMPROF_HOME", "/proc/llmprof")
    assert found()["folder of runs"].blocks
    assert main(["doctor"]) == 3
    assert "Nothing can be measured here: folder of runs." in capsys.readouterr().out


def test_a_file_system_without_locks(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(path: Path) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock, "hold", none)
    assert found()["file locks"].blocks


@pytest.mark.parametrize(
    ("environment", "what", "state"),
    [
        ({"TERM": "dumb"}, "terminal", "limited"),
        ({"TERM": "xterm", "COLORTERM": "truecolor", "NO_COLOR": ""}, "terminal", "ok"),
        ({"TERM": "xterm-256color", "COLORTERM": "", "NO_COLOR": ""}, "terminal", "ok"),
        ({"TERM": "xterm", "COLORTERM": "", "NO_COLOR": ""}, "terminal", "limited"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "terminal", "limited"),
        ({"TERM": "xterm", "LC_ALL": "C"}, "locale", "limited"),
        ({"TERM": "xterm", "LC_ALL": "en_GB.UTF-8"}, "locale", "ok"),
    ],
)
def test_terminals(quick: None, environment: dict[str, str], what: str, state: str) -> None:
    assert found(**environment)[what].state == state
