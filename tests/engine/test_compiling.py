"""What ran eagerly is never a timing under the name of torch.compile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmprof.core.worker.compiling import compile_step
from llmprof.core.worker.failures import Unsupported
from tests.engine.runs import SMALL, llmprof
from tests.engine.test_mistakes import Recorder, tiny

BOTH = ("--compile=none,default", "--measure-steps=2", "--warmup-steps=1", "--mode=forward")


def cases(home: Path, *words: str) -> list[dict[str, Any]]:
    done = llmprof(home, "run", *words, f"--export={home / 'r.json'}")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads((home / "r.json").read_text("utf-8"))["cases"]
    return found


@pytest.mark.parametrize("name", ["TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"])
def test_a_variable_that_switches_it_off_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    eager, compiled = cases(tmp_path, *SMALL, *BOTH)
    assert eager["status"] == "ok"
    assert compiled["status"] == "unsupported"
    assert compiled["failure"]["phase"] == "compile"
    assert name in compiled["failure"]["message"]
    assert "--compile" not in compiled["failure"]["instead"]
    assert compiled["steps"] == []


@pytest.mark.parametrize("hidden", [False, True], ids=["raised", "suppressed"])
def test_a_compiler_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: bool
) -> None:
    monkeypatch.setenv("CXX", "/no/such/compiler")
    if hidden:
        monkeypatch.setenv("TORCHDYNAMO_SUPPRESS_ERRORS", "1")
    eager, compiled = cases(tmp_path, *SMALL, *BOTH)
    assert eager["status"] == "ok"
    assert compiled["status"] == "unsupported"
    message = compiled["failure"]["message"]
    assert "it needs a C++ compiler, and none works here" in message
    assert ("TORCHDYNAMO_SUPPRESS_ERRORS hid that" in message) is hidden
    assert compiled["steps"] == []


@pytest.mark.parametrize("experiment", ["kernels", "memory", "attention"])
def test_no_probe_takes_an_eager_step_for_a_compiled_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, experiment: str
) -> None:
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    words = [experiment, "--smoke", "--device=cpu"]
    if experiment == "attention":
        words += ["--context-length=16", "--variant=raw,compiled"]
    else:
        words += [*SMALL, "--compile=default"]
    found = [case for case in cases(tmp_path, *words) if case["config"]["compile"] is not None]
    assert found
    assert {case["status"] for case in found} == {"unsupported"}
    assert all("TORCH_COMPILE_DISABLE" in case["failure"]["message"] for case in found)


def test_a_frame_of_several_that_fails_in_silence_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._dynamo.config as settings
    from torch._dynamo.utils import counters

    class Half:
        """A step of two frames, of which one is compiled."""

        def step(self, edge: object) -> None:
            counters["frames"]["total"] += 2
            counters["frames"]["ok"] += 1
            counters["stats"]["unique_graphs"] += 1

    assert compile_step(Recorder(tiny(compile="default")), Half()) is not None
    hiding = settings.patch(suppress_errors=True)
    with hiding, pytest.raises(Unsupported, match="hid that: not for the same reason again"):
        compile_step(Recorder(tiny(compile="default")), Half())


# What torch 2.11 says on a card whose machine has no compiler, as it was seen.
NO_GCC = (
    "CalledProcessError: Command '['/opt/gcc/bin/gcc', '/tmp/x/cuda_utils.c', '-O3', '-shared']' "
    "returned non-zero exit status 1."
)
NO_CC = "FileNotFoundError: [Errno 2] No such file or directory: '/nonexistent'\n\nSet TORCH_LOGS"
NO_TRITON = "TritonMissing: Cannot find a working triton installation."


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (NO_GCC, "its C compiler fails"),
        (NO_CC, "the one in CC is not there"),
        (NO_TRITON, "it needs triton on a card"),
        ("CppCompileError: fatal error: Python.h: No such file", "the header files of Python"),
    ],
)
def test_what_a_card_lacks_to_compile_is_named(
    monkeypatch: pytest.MonkeyPatch, said: str, told: str
) -> None:
    class Failing:
        def step(self, edge: object) -> None:
            raise RuntimeError(said)

    monkeypatch.setenv("CC", "/nonexistent")
    with pytest.raises(Unsupported, match=told):
        compile_step(Recorder(tiny(compile="default")), Failing())


def test_another_failure_is_no_missing_compiler() -> None:
    class Failing:
        def step(self, edge: object) -> None:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal"):
        compile_step(Recorder(tiny(compile="default")), Failing())
