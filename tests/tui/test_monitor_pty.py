"""`llmprof monitor` in a real terminal, and without one."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import psutil
import pyte
import pytest

from tests.engine.nvml_library import build, environment

RECORDING = Path(__file__).parents[1] / "fixtures" / "monitor-load.jsonl"
COMMAND = [sys.executable, "-m", "llmprof", "monitor"]


def take(master: int) -> bytes:
    """What is there within a moment; nothing once the other end is closed."""
    with contextlib.suppress(OSError):
        if select.select([master], [], [], 0.1)[0]:
            return os.read(master, 65536)
    return b""


def screen_of(
    command: list[str], keys: bytes, until: str, home: Path
) -> tuple[str, int, list[int]]:
    """The screen once a text is on it, then the exit code after keys, and processes left."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    variables = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    variables |= {"LLMPROF_HOME": str(home)}
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=variables, start_new_session=True
    )
    os.close(slave)
    screen = pyte.Screen(80, 24)
    stream = pyte.ByteStream(screen)
    try:
        end = time.monotonic() + 30
        while until not in "\n".join(screen.display) and time.monotonic() < end:
            stream.feed(take(master))
        shown = "\n".join(screen.display)
        children = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        os.write(master, keys)
        while process.poll() is None and time.monotonic() < end:
            take(master)
        return shown, process.wait(5), [pid for pid in children if psutil.pid_exists(pid)]
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_the_screen_shows_the_host_and_leaves_nothing(tmp_path: Path) -> None:
    shown, code, left = screen_of(COMMAND, b"q", "Host", tmp_path)
    assert "Monitor" in shown
    assert "CPU" in shown
    assert code == 0
    assert left == []


def test_a_recording_plays_in_a_terminal_and_leaves_nothing(tmp_path: Path) -> None:
    command = [*COMMAND, "--replay", str(RECORDING), "--speed", "100"]
    shown, code, left = screen_of(command, b"q", "recording ended", tmp_path)
    assert "recording" in shown.splitlines()[0]
    assert "535 / 700 W" in shown
    assert (code, left) == (0, [])


def test_a_card_that_is_not_there_is_refused_before_a_screen_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(build(tmp_path), "ok").items():
        monkeypatch.setenv(name, value)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "--gpus", "0,5"], stdin=slave, stdout=slave, stderr=slave,
        env={**os.environ, "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(slave)
    said, end = b"", time.monotonic() + 30
    while process.poll() is None and time.monotonic() < end:
        said += take(master)
    said += take(master)
    os.close(master)
    assert process.wait(5) == 2
    assert b"no GPU 5 here; there are 0, 1" in said
    assert b"\x1b[?1049h" not in said


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options], capture_output=True, text=True, timeout=60, check=False
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
    assert process.wait(20) == 0


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
