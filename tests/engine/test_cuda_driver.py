"""A device that is not there is refused by what the driver says, before torch is loaded."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from llmprof.core.devices.cuda_driver import absent
from llmprof.core.engine.client import Engine, Plan
from llmprof.core.store.journal import replay
from llmprof.core.store.run import RunStore
from tests.builders.handmade import experiment
from tests.engine.runs import SMALL, llmprof

DRIVER = r"""
#include <stdlib.h>
#include <unistd.h>
static int number(const char *name) { const char *s = getenv(name); return s ? atoi(s) : 0; }
int cuInit(unsigned flags) {
    if (number("FAKE_CUDA_HANGS")) sleep(60);
    return flags ? 1 : number("FAKE_CUDA_INIT");
}
int cuDeviceGetCount(int *count) { *count = number("FAKE_CUDA_COUNT"); return 0; }
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a driver of which the environment says what it has."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("driver")
    (folder / "cuda.c").write_text(DRIVER)
    flags = ["-shared", "-fPIC", "-Wall", "-Werror"]
    subprocess.run(
        [compiler, *flags, "-o", str(folder / "libcuda.so.1"), str(folder / "cuda.c")], check=True
    )
    return folder


def has(monkeypatch: pytest.MonkeyPatch, folder: Path, **what: int) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    for name, value in what.items():
        monkeypatch.setenv(f"FAKE_CUDA_{name.upper()}", str(value))


def test_a_card_beyond_the_last(monkeypatch: pytest.MonkeyPatch, driver: Path) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    has(monkeypatch, driver, count=2)
    assert absent("cuda:7") == "device cuda:7 isn't there: cuda:0 to cuda:1 are"
    for device in ("cuda", "cuda:0", "cuda:1", "cpu", "auto"):
        assert absent(device) is None
    has(monkeypatch, driver, count=1)
    assert absent("cuda:1") == "device cuda:1 isn't there: cuda:0 is"


def test_a_driver_without_cards(monkeypatch: pytest.MonkeyPatch, driver: Path) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    has(monkeypatch, driver, init=100)
    assert absent("cuda") == (
        "device cuda isn't there: the driver shows no card (CUDA_VISIBLE_DEVICES is '')"
    )


def test_a_driver_that_fails_otherwise_is_left_to_torch(
    monkeypatch: pytest.MonkeyPatch, driver: Path
) -> None:
    has(monkeypatch, driver, init=803)
    assert absent("cuda:7") is None
    has(monkeypatch, driver, init=0, count=2, hangs=1)
    assert absent("cuda:7", patience_s=0.5) is None


@pytest.mark.parametrize("command", ["run", "calibrate"])
def test_a_command_refuses_it_and_leaves_no_run(
    monkeypatch: pytest.MonkeyPatch, driver: Path, tmp_path: Path, command: str
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    has(monkeypatch, driver, count=2)
    words = SMALL[:-1] if command == "run" else []
    done = llmprof(tmp_path, command, *words, "--device=cuda:7")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "llmprof: device cuda:7 isn't there: cuda:0 to cuda:1 are\n"
    assert not list((tmp_path / "runs").glob("*"))


def test_an_engine_refuses_it_whoever_started_it(
    monkeypatch: pytest.MonkeyPatch, driver: Path, tmp_path: Path
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    has(monkeypatch, driver, count=2)
    run = RunStore(tmp_path).create("elsewhere")
    engine = Engine(run.log)
    plan = msgspec.structs.replace(experiment(), device="cuda:2")
    engine.run(Plan(run_dir=str(run.path), experiment=plan))
    assert engine.wait(60) == 0
    view = replay(run.journal)
    assert [line.message for line in view.log] == [
        "device cuda:2 isn't there: cuda:0 to cuda:1 are"
    ]
    assert view.outcome == "failed"
