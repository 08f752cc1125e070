"""`llmprof monitor` without a screen, over the small C library with two cards."""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.nvml_library import build, environment
from tests.waiting import PATIENCE_S, wait_for


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


def monitor(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llmprof", "monitor", *options],
        env=environment(folder, "ok"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("form", [("--once",), ("--json",), ("--json", "--follow")])
@pytest.mark.parametrize("asked", ["0,5", "GPU-99", "MIG-1a2b", "1,1,7"])
def test_a_card_that_is_not_there_is_refused(
    library: Path, form: tuple[str, ...], asked: str
) -> None:
    done = monitor(library, *form, "--gpus", asked)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert asked.rsplit(",", maxsplit=1)[-1] in done.stderr
    assert "there are 0" in done.stderr


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="has a driver")
@pytest.mark.parametrize("form", [("--once",), ("--json",), ("--json", "--follow")])
def test_a_card_asked_for_where_there_is_no_driver_is_refused(form: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "llmprof", "monitor", *form, "--gpus", "0"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("llmprof: --gpus: NVML is missing")
    assert done.stderr.count("\n") == 1


def test_only_the_cards_asked_for_are_shown(library: Path) -> None:
    done = monitor(library, "--json", "--gpus", "1")
    assert done.returncode == 0
    assert [card["index"] for card in json.loads(done.stdout)["cards"]] == [1]


@pytest.mark.parametrize("form", [("--once",), ("--json",), ("--json", "--follow")])
@pytest.mark.parametrize("lines", [0, 1])
def test_a_reader_that_goes_away_is_no_failure(
    library: Path, form: tuple[str, ...], lines: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "llmprof", "monitor", *form],
        env=environment(library, "ok"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    for _ in range(lines):
        assert process.stdout.readline()
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize("form", [("--once",), ("--json", "--follow")])
def test_without_a_standard_output_it_ends(library: Path, form: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "llmprof", "monitor", *form],
        env=environment(library, "ok"),
        stderr=subprocess.PIPE,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


RECORDING = Path(__file__).parents[1] / "fixtures" / "monitor-load.jsonl"


def test_a_recording_is_shown_as_it_ended(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "load.jsonl"
    path.write_bytes(b"torn\n" + RECORDING.read_bytes())
    done = monitor(library, "--once", "--replay", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    assert first == "Recorded at an unknown time, the end of 40 s, 1 unreadable line"
    assert any("NVIDIA H100 80GB HBM3" in line and "535 / 700 W" in line for line in rest)
    assert "Fake" not in done.stdout  # the cards of this machine
    found = json.loads(monitor(library, "--json", "--replay", str(path)).stdout)
    assert found["time"] is None
    assert found["cards"][0]["metrics"]["power_limit"]["value"] == 700


def test_what_the_monitor_writes_it_can_replay(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    with path.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "llmprof", "monitor", "--json", "--follow"],
            env=environment(library, "ok"),
            stdout=file,
        )
        wait_for(lambda: path.read_bytes().count(b"\n") >= 4, "a fourth sample")
        process.terminate()
        process.wait(PATIENCE_S)
    done = monitor(library, "--once", "--replay", str(path))
    assert done.stdout.startswith(f"Recorded {datetime.datetime.now(datetime.UTC):%Y-}")
    assert "250 / 700 W" in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--replay", "nowhere.jsonl"), "nowhere.jsonl: No such file"),
        (("--replay", __file__), "holds no sample of a monitor"),
        (("--replay", str(RECORDING), "--json", "--follow"), "have no effect"),
        (("--replay", str(RECORDING), "--gpus", "0"), "have no effect"),
        (("--speed", "2"), "--speed needs --replay"),
        (("--replay", str(RECORDING), "--speed", "0"), "not between"),
    ],
)
def test_a_replay_that_makes_no_sense_is_refused(
    library: Path, options: tuple[str, ...], said: str
) -> None:
    done = monitor(library, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
