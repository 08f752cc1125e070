"""`llmprof monitor` in a real terminal, and without one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.engine.nvml_library import build, environment
from tests.engine.runs import alive
from tests.tui.terminal import Terminal
from tests.waiting import PATIENCE_S, wait_for

RECORDING = Path(__file__).parents[1] / "fixtures" / "monitor-load.jsonl"
COMMAND = [sys.executable, "-m", "llmprof", "monitor"]


def screen_of(home: Path, until: str, *options: str) -> str:
    """The screen once a text is on it; after q it ends well, and what it started does too."""
    with Terminal(home, "monitor", *options) as terminal:
        terminal.wait(until)
        shown = terminal.text
        children = psutil.Process(terminal.process.pid).children(recursive=True)
        terminal.send("q")
        assert terminal.end() == 0
    wait_for(lambda: not alive(children), "the end of the sampler")
    return shown


def test_the_screen_shows_the_host_and_leaves_nothing(tmp_path: Path) -> None:
    shown = screen_of(tmp_path, "Host")
    assert "Monitor" in shown
    assert "CPU" in shown


def test_a_recording_plays_in_a_terminal_and_leaves_nothing(tmp_path: Path) -> None:
    shown = screen_of(tmp_path, "recording ended", "--replay", str(RECORDING), "--speed", "100")
    assert "recording" in shown.splitlines()[0]
    assert "535 / 700 W" in shown


def test_a_card_that_is_not_there_is_refused_before_a_screen_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(build(tmp_path), "ok").items():
        monkeypatch.setenv(name, value)
    with Terminal(tmp_path, "monitor", "--gpus", "0,5") as terminal:
        assert terminal.end() == 2
        assert "no GPU 5 here; there are 0, 1" in terminal.text
        assert b"\x1b[?1049h" not in terminal.raw


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_once_prints_a_table_without_a_terminal() -> None:
    for options in (("--once",), ()):
        done = run(*options)
        assert done.returncode == 0
        assert done.stdout.startswith("Host  CPU ")
        assert "GPU" in done.stdout


def test_json_is_one_object() -> None:
    done = run("--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["host"]["memory_total_bytes"] > 0
    assert isinstance(found["cards"], list)
    assert found["cards"] or found["cards_reason"]


def test_json_lines_follow_until_nobody_reads() -> None:
    process = subprocess.Popen(
        [*COMMAND, "--json", "--follow", "--interval", "0.1"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    times = [json.loads(process.stdout.readline())["time"] for _ in range(3)]
    assert times == sorted(set(times))
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--gpus", "x"), "neither a GPU index nor a UUID"),
        (("--interval", "0"), "--interval must be from"),
        (("--follow",), "--follow needs --json"),
        (("--once", "--json", "--follow"), "exclude each other"),
    ],
)
def test_options_that_make_no_sense(options: tuple[str, ...], says: str) -> None:
    done = run(*options)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stdout == ""
