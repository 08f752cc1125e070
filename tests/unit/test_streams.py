"""What a command writes arrives whole, however slowly it is read."""

from __future__ import annotations

import ast
import fcntl
import json
import os
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import llmprof.cli
from llmprof.cli.progress import ProgressLine
from llmprof.cli.streams import put, tell, write_whole
from llmprof.core.store.journal import replay
from tests.builders.handmade import whole_run
from tests.waiting import wait_for

CLI = Path(llmprof.cli.__path__[0])
PAGE = 4096


def narrow_pipe() -> tuple[int, int]:
    """A pipe of a page whose write end does not block."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PAGE)
    os.set_blocking(write, False)
    return read, write


@contextmanager
def started(write: int, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "llmprof", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


def wait_full(read: int) -> None:
    """Wait until no more goes into the pipe."""
    held: list[int] = []

    def full() -> bool:
        held.append(int.from_bytes(fcntl.ioctl(read, termios.FIONREAD, bytes(4)), sys.byteorder))
        return len(held) >= 10 and held[-1] > 0 and len(set(held[-10:])) == 1

    wait_for(full, "a full pipe")


def read_all(fd: int) -> bytes:
    found = b""
    while block := os.read(fd, 1000):
        found += block
    os.close(fd)
    return found


@pytest.mark.parametrize(
    "arguments",
    [
        ("show",),
        ("predict", "--model-size=all", "--card=H100-80GB", "--json"),
        ("experiments", "--json"),
    ],
    ids=lambda words: words[0],
)
def test_a_slow_reader_gets_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path))
    words = [*arguments]
    if arguments == ("show",):
        words.append(str(whole_run(tmp_path / "journal.jsonl")))
    whole = subprocess.run(
        [sys.executable, "-P", "-m", "llmprof", *words], capture_output=True, check=True
    ).stdout
    assert len(whole) > PAGE
    read, write = narrow_pipe()
    with started(write, *words) as process:
        wait_full(read)
        assert read_all(read) == whole
        assert process.wait(20) == 0


def test_a_slow_reader_gets_whole_lines_of_a_monitor() -> None:
    read, write = narrow_pipe()
    with started(write, "monitor", "--json", "--follow", "--interval=0.05"):
        wait_full(read)
        with os.fdopen(read, "rb") as lines:
            for _ in range(40):
                assert "host" in json.loads(lines.readline())


def test_a_reader_that_goes_away_ends_the_wait() -> None:
    read, write = narrow_pipe()
    closer = threading.Timer(0.2, os.close, (read,))
    closer.start()
    with pytest.raises(BrokenPipeError):
        write_whole(write, bytes(10 * PAGE))
    closer.join()
    os.close(write)


def test_without_streams_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as gone:
        gone.setattr(sys, "stdout", None)
        gone.setattr(sys, "stderr", None)
        put("nobody")
        tell("nobody")
    assert capfd.readouterr() == ("", "")


def test_a_full_disk_is_an_error_and_a_lost_standard_error_is_none() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "llmprof", "presets"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert "No space left" in done.stderr
        lost = subprocess.run(
            [sys.executable, "-P", "-m", "llmprof", "bogus"], stderr=full, check=False
        )
    assert lost.returncode == 2


def test_a_name_that_standard_output_cannot_encode_is_spelt_out(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        '["größe"]\nd_model = 32\nd_ff = 64\nnum_layers = 1\nnum_heads = 2\n', "utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-m", "llmprof", "presets"],
        env={**os.environ, "LLMPROF_PRESETS": str(tmp_path), "PYTHONIOENCODING": "ascii"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert r"gr\xf6\xdfe" in done.stdout


@pytest.mark.parametrize("path", sorted(CLI.glob("*.py")), ids=lambda path: path.stem)
def test_there_is_one_place_that_writes(path: Path) -> None:
    if path.stem == "streams":
        return
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("print", "sys.stdout.write", "sys.stderr.write"), node.lineno


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"])
def test_progress_is_drawn_on_a_terminal_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
) -> None:
    monkeypatch.setenv(variable, "1")
    view = replay(whole_run(tmp_path / "journal"))
    with ProgressLine() as progress:
        for _ in range(3):
            progress.update(view)
    assert capsys.readouterr() == ("", "")
