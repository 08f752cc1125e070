"""The terminal that other tests run programs in."""

from __future__ import annotations

from pathlib import Path

from tests.tui.terminal import Terminal

FILLS_IT = """
import os
os.set_blocking(1, False)
try:
    while True:
        os.write(1, b"x" * 1000)
except BlockingIOError:
    os._exit(3)
"""


def test_a_program_that_ends_on_a_full_terminal_has_ended(tmp_path: Path) -> None:
    with Terminal(tmp_path, program=("-c", FILLS_IT)) as terminal:
        terminal.process.wait()  # nobody reads meanwhile
        assert terminal.end() == 3
        assert terminal.raw.count(b"x") >= 1000
