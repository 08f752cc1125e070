"""The program in a real terminal: signals, encodings, colours, bad bytes, sizes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from llmprof.core.store.run import RunStore
from tests.builders import journals
from tests.tui.terminal import Terminal, environment
from tests.waiting import PATIENCE_S, wait_for

READY = "Experiment"
COLOUR = re.compile(rb"\x1b\[[0-9;]*(?:3[0-7]|4[0-7]|9[0-7]|10[0-7]|38;|48;)[0-9;]*m")


def engines(home: Path) -> list[int]:
    """Processes of an engine, or below it, that belong to this test's home folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
            variables = (entry / "environ").read_bytes()
        except OSError:
            continue
        if b"llmprof.core" in words and str(home).encode() in variables:
            found.append(int(entry.name))
    return found


def wait_gone(home: Path) -> None:
    wait_for(lambda: not engines(home), "the end of the engine")


def test_q_leaves_a_clean_terminal(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.wait(READY)
        terminal.wait(lambda: bool(engines(tmp_path)))
        terminal.send("q")
        assert terminal.end() == 0
        assert terminal.restored
    wait_gone(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_restore_the_terminal_and_leave_no_orphan(tmp_path: Path, number: int) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.wait(READY)
        os.kill(terminal.process.pid, number)
        assert terminal.end() == 128 + number
        assert terminal.restored
    wait_gone(tmp_path)


def test_ctrl_c_leaves_with_130(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.wait(READY)
        terminal.send(b"\x03")
        assert terminal.end() == 130
        assert terminal.restored
    wait_gone(tmp_path)


def test_a_closed_terminal_ends_the_screen(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.wait(READY)
        terminal.hang_up()
        assert terminal.process.wait(PATIENCE_S) == 129
    wait_gone(tmp_path)


def test_a_connection_that_is_lost_at_the_end_does_not_take_the_exit_code(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from llmprof.cli.open_screen import open_screen;"
        "code = open_screen(); os.kill(os.getpid(), signal.SIGHUP); sys.exit(code)"
    )
    with Terminal(tmp_path, program=("-c", code)) as terminal:
        terminal.wait(READY)
        os.kill(terminal.process.pid, signal.SIGTERM)
        assert terminal.end() == 128 + signal.SIGTERM


def test_a_lost_connection_ends_with_129_and_leaves_the_run(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path / "runs"))
    with run.lock():  # as its engine does
        with Terminal(tmp_path, "attach", run.id) as terminal:
            terminal.wait("finished")
            terminal.hang_up()
            assert terminal.process.wait(PATIENCE_S) == 129
        assert run.alive()


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.wait(READY)
        terminal.send(b"\x1a")
        stat = Path(f"/proc/{terminal.process.pid}/stat")
        terminal.wait(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        terminal.wait(lambda: terminal.restored)
        terminal.screen.reset()
        os.kill(terminal.process.pid, signal.SIGCONT)
        for whole in (READY, "llmprof  1 Bench", "q Quit"):  # without a key or a resize
            terminal.wait(whole)
        terminal.send("q")
        assert terminal.end() == 0
        assert terminal.restored


@pytest.mark.parametrize(
    ("key", "answer"), [(" ", "○ small"), ("2", "no runs yet"), ("?", "previous option")]
)
def test_a_key_typed_before_the_first_frame_is_not_lost(
    tmp_path: Path, key: str, answer: str
) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.send(key)
        terminal.wait(answer)
        assert terminal.process.poll() is None


def test_bytes_that_are_no_text_are_no_keys(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.wait(READY)
        for junk in (b"\xff\xfe\x80", b"\xc3", b"\xe2\x82", b"\x1b[999;999M", b"\x1b]52;c;!!\x07",
                     b"\x00", b"\x1b[200~q\x1b[201~"):  # fmt: skip
            terminal.send(junk)
        terminal.send("2")
        terminal.wait("no runs yet")
        terminal.send("q")
        assert terminal.end() == 0


def test_keys_typed_fast_are_keys_and_no_paste(tmp_path: Path) -> None:
    with Terminal(tmp_path, size=(120, 34)) as terminal:
        terminal.wait("Steps")
        terminal.wait("picks another")  # the whole form is there
        terminal.send(b"\x1b[Z" * 4)  # back by experiment, results and card to the last number
        terminal.wait("esc Leave field")
        terminal.send("23\t")  # in one read
        terminal.wait(lambda: "--measure-steps 1023" in terminal.text)
        assert "not a whole number" not in terminal.text
        assert "\u21e5" not in terminal.text
        assert terminal.process.poll() is None


SLOW = """
import asyncio
import sys
from llmprof.cli.main import main
from llmprof.tui.kit.field import FormInput

async def late(self, event):
    await asyncio.sleep(0.2)

FormInput.on_key = late
sys.exit(main())
"""


@pytest.mark.parametrize("program", [("-m", "llmprof"), ("-c", SLOW)], ids=["", "busy"])
def test_a_number_a_tab_and_a_number_in_one_read(tmp_path: Path, program: tuple[str, ...]) -> None:
    with Terminal(tmp_path, size=(120, 34), program=program) as terminal:
        terminal.wait("Steps")
        terminal.wait("picks another")  # the whole form is there
        terminal.send(b"\x1b[Z" * 9)  # to the first number
        terminal.wait("esc Leave field")
        terminal.send(b"2\t40")
        terminal.wait(lambda: "batch-size 440" in terminal.text.replace("--", ""))
        assert "--context-length 1282 " in terminal.text
        terminal.send(b"\x1b")


def open_and_close_help(terminal: Terminal) -> None:
    terminal.send("?")
    terminal.wait("esc closes")
    terminal.send(b"\x1b")
    terminal.wait(lambda: "esc closes" not in terminal.text)


def test_ascii_is_automatic_without_utf8(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path / "runs"))
    env = environment(tmp_path, LANG="C")
    with Terminal(tmp_path, "screen", run.id, env=env) as terminal:
        terminal.wait("finished")
        open_and_close_help(terminal)
        terminal.send("q")
        assert terminal.end() == 0
        drawn = re.sub(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)", b"", terminal.raw)
        odd = set(re.findall(rb"[\x80-\xff]+", drawn))
        assert not odd
        assert b"\\u" not in drawn
        assert b"+-" in drawn


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"COLORTERM": "truecolor"}, rb"\x1b\[[0-9;]*38;2;"),
        ({"COLORTERM": ""}, rb"\x1b\[[0-9;]*38;5;"),
        ({"COLORTERM": "", "TERM": "xterm-16color"}, rb"\x1b\[[0-9;]*(?:3[0-7]|9[0-7])[;m]"),
    ],
)
def test_colours_fit_the_terminal(
    tmp_path: Path, variables: dict[str, str], expected: bytes
) -> None:
    with Terminal(tmp_path, env=environment(tmp_path, **variables)) as terminal:
        terminal.wait(READY)
        terminal.send("q")
        assert terminal.end() == 0
        assert re.search(expected, terminal.raw)
        if "TERM" in variables:
            assert b"38;2;" not in terminal.raw
            assert b"38;5;" not in terminal.raw


def test_no_color_sends_no_colour(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path / "runs"))
    env = environment(tmp_path, NO_COLOR="1")
    with Terminal(tmp_path, "screen", run.id, env=env) as terminal:
        terminal.wait("finished")
        open_and_close_help(terminal)
        terminal.send("q")
        assert terminal.end() == 0
        assert not COLOUR.search(terminal.raw)


def test_names_cannot_reach_the_terminal(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    plan = journals.experiment(("[/]\x1b]0;owned\x07\x1b[2Jx", "small"))
    run = store.create("bench")
    writer = journals.Writer(run)
    writer.begin(plan, "\x1b]52;c;aGk=\x07card[red]")
    writer.case(0, plan.cases()[0])
    writer.end("stopped")
    (run.path / "label").write_text("\x1b]0;owned\x07[/]label")
    with Terminal(tmp_path, "screen", "last", size=(120, 30)) as terminal:
        terminal.wait("stopped")
        terminal.send("2")
        terminal.wait("[/]label")
        terminal.send("q")
        assert terminal.end() == 0
        assert b"owned\x07" not in terminal.raw
        assert b"\x1b]52;c;aGk" not in terminal.raw


def test_a_storm_of_resizes(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path / "runs"))
    with Terminal(tmp_path, "screen", run.id) as terminal:
        terminal.wait("finished")
        for size in [(1, 1), (400, 100), (5, 50), (200, 3), (59, 15), (60, 16), (99, 24),
                     (100, 28), (2, 2), (139, 40), (140, 27)] * 2:  # fmt: skip
            terminal.resize(*size)
            terminal.wait(lambda: bool(terminal.text.strip()))
        terminal.resize(81, 24)
        terminal.wait("finished")
        terminal.send("q")
        assert terminal.end() == 0
        assert terminal.restored


@pytest.mark.parametrize("size", [(1, 1), (59, 24), (80, 15), (400, 100)])
def test_sizes_from_the_start(tmp_path: Path, size: tuple[int, int]) -> None:
    with Terminal(tmp_path, size=size) as terminal:
        terminal.wait("too small"[: size[0]] if size[0] < 60 or size[1] < 16 else READY)
        terminal.send("q")
        assert terminal.end() == 0


def test_the_copied_command_travels_as_osc_52(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.wait(READY)
        terminal.send("y")
        terminal.wait(lambda: b"\x1b]52;c;" in terminal.raw)
        terminal.send("q")
        assert terminal.end() == 0


def test_refresh_options_are_checked(tmp_path: Path) -> None:
    for wrong in ("0", "99", "x", "nan"):
        done = headless(tmp_path, "screen", "--refresh", wrong)
        assert done.returncode == 2
        assert "is not between" in done.stderr


def headless(home: Path, *arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "llmprof", *arguments],
        env=environment(home, **changes),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize("arguments", [(), ("screen",), ("demo",)])
def test_without_a_terminal_one_line_names_the_headless_command(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = headless(tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "llmprof run" in done.stderr


def test_a_dumb_terminal_gets_the_same_line(tmp_path: Path) -> None:
    with Terminal(tmp_path, env=environment(tmp_path, TERM="dumb")) as terminal:
        assert terminal.end() == 2
        assert b"llmprof run" in terminal.raw
        assert b"\x1b" not in terminal.raw


def test_a_crash_exits_non_zero_and_restores_the_terminal(tmp_path: Path) -> None:
    code = (
        "import sys; from llmprof.cli.open_screen import open_screen;"
        "from llmprof.tui.bench.view import BenchView;"
        "BenchView.action_zoom = lambda self: 1 // 0;"
        "sys.exit(open_screen())"
    )
    run = journals.finished(RunStore(tmp_path / "runs"))
    assert run.journal.exists()
    with Terminal(tmp_path, program=("-c", code)) as terminal:
        terminal.wait(READY)
        terminal.send("2")
        terminal.wait("complete")
        terminal.send("\r")
        terminal.wait("finished")
        terminal.send("z")
        assert terminal.end() == 1
        assert terminal.restored
        text = terminal.raw.decode("utf-8", "replace")
        assert "ZeroDivisionError" in text
        assert "llmprof: the screen failed" in text
        assert "locals" not in text
        assert "goes on" not in text
    wait_gone(tmp_path)


def test_what_a_child_prints_does_not_reach_the_screen(tmp_path: Path) -> None:
    with Terminal(tmp_path) as terminal:
        terminal.wait(READY)
        terminal.wait(lambda: bool(engines(tmp_path)))
        for pid in engines(tmp_path):
            for fd in (1, 2):
                assert not str(Path(f"/proc/{pid}/fd/{fd}").readlink()).startswith("/dev/pts/")
        terminal.send("q")
        assert terminal.end() == 0
