"""The main journey in tmux, as people have it over SSH."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from llmprof.core.catalog.models import load_models
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.session.choices import Choices
from llmprof.tui.session.remembered import remember
from tests.tui.terminal import environment
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
    pytest.mark.timeout(300),
]

MICRO = """
[micro]
d_model = 32
d_ff = 64
num_layers = 2
num_heads = 2
vocab_size = 128
"""


class Tmux:
    """A tmux server of its own, with one window."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.socket = str(home / "tmux")
        self.env = environment(home)
        presets = home / "presets"
        (presets / "micro.toml").write_text(MICRO)
        # Without this the server ends with its last window, and a window opened
        # in that moment finds a server that is just going.
        self.configuration = home / "tmux.conf"
        self.configuration.write_text("set -g exit-empty off\n")

    def __call__(self, *words: str) -> str:
        command = ["tmux", "-S", self.socket, "-f", str(self.configuration), *words]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=True)
        return done.stdout

    def start(self, *arguments: str, width: int = 100, height: int = 28) -> None:
        program = " ".join([sys.executable, "-m", "llmprof", *arguments])
        self("new-session", "-d", "-x", str(width), "-y", str(height),
             f"{program}; echo exit code $?; sleep 1000")  # fmt: skip

    def text(self) -> str:
        return self("capture-pane", "-p")

    def wait(self, condition: str | Callable[[str], bool], seconds: float = 60.0) -> str:
        text = ""

        def came() -> bool:
            nonlocal text
            text = self.text()
            return condition in text if isinstance(condition, str) else condition(text)

        wait_for(came, lambda: f"{condition!r} on\n{text}", seconds)
        return text

    def keys(self, *keys: str) -> None:
        """Press keys; wait for their effect before pressing others, or they come as a paste."""
        self("send-keys", *keys)

    def pane_pid(self) -> int:
        return int(self("display-message", "-p", "#{pane_pid}"))


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    server = Tmux(tmp_path)
    yield server
    subprocess.run(["tmux", "-S", server.socket, "kill-server"], capture_output=True, check=False)
    for run in RunStore(tmp_path / "runs").list():
        run.stop(force=True)


def last_choices(tmux: Tmux, steps: int) -> None:
    """What the screen remembers of an earlier session."""
    choices = Choices(models=("micro",), context_length="16", batch_size="1",
                      measure_steps=str(steps))  # fmt: skip
    remember(choices, tmux.home / "screen.json")


def tick_micro(tmux: Tmux) -> None:
    """Tick only the micro model, by keys."""
    tmux.wait("Experiment")
    tmux.keys("Space")  # small, which is ticked at first
    tmux.wait("tick at least one model")
    known = list(load_models())
    # From the one that is ticked at first to the last, which is the user's own.
    tmux.keys(*["Down"] * (len(known) - known.index("small")))
    tmux.wait(lambda text: any("▸" in row and "micro" in row for row in text.splitlines()))
    tmux.keys("Space")
    tmux.wait("--model-size micro")


def only_run(home: Path) -> Run:
    runs = RunStore(home / "runs").list()
    assert len(runs) == 1
    return runs[0]


def test_pick_run_watch_export_quit(tmux: Tmux) -> None:
    tmux.start()
    tick_micro(tmux)
    tmux.keys("r")
    tmux.wait("finished", 90)
    assert "ok" in tmux.text()
    tmux.keys("e")
    tmux.wait("# llmprof")
    tmux.keys("C-u")
    tmux.wait("path of the file")
    tmux("send-keys", "-l", str(tmux.home / "out.md"))
    tmux.wait("out.md")
    tmux.keys("Enter")
    tmux.wait(lambda text: (tmux.home / "out.md").exists())
    assert "micro" in (tmux.home / "out.md").read_text("utf-8")
    tmux.keys("q")
    tmux.wait("exit code 0")
    assert not only_run(tmux.home).alive()


def test_start_hang_up_attach_finish(tmux: Tmux) -> None:
    last_choices(tmux, 1500)
    tmux.start()
    tmux.wait(lambda text: "--measure-steps 1500" in text and "GiB" in text)
    tmux.keys("r")
    tmux.wait("of 1500", 90)
    run = only_run(tmux.home)
    tmux("kill-session")  # hangs up, as a lost connection does
    assert run.alive()
    tmux.start("attach", run.id)
    tmux.wait("live", 30)
    tmux.wait("of 1500", 30)
    tmux.wait("finished", 120)
    view = replay(run.journal)
    assert view.outcome == "complete"
    assert len(view.cases[0].measured) == 1500
    tmux.keys("q")
    tmux.wait("exit code 0")


def test_leave_it_running_and_stop_it_from_the_list(tmux: Tmux) -> None:
    last_choices(tmux, 900_000)
    tmux.start()
    tmux.wait(lambda text: "--measure-steps 900000" in text and "GiB" in text)
    tmux.keys("r")
    tmux.wait("of 900000", 90)
    run = only_run(tmux.home)
    tmux.keys("q")
    tmux.wait("Leave it running")
    tmux.keys("l")
    text = tmux.wait("exit code 0")
    assert f"llmprof attach {run.id}" in text.replace("\n", "")
    assert run.alive()
    tmux("kill-session")
    tmux.start()
    tmux.wait("Experiment")
    tmux.keys("2")
    tmux.wait("running")
    tmux.keys("x")
    tmux.wait("stopped", 60)
    wait_for(lambda: not run.alive(), "the end of the engine")
    assert replay(run.journal).outcome == "stopped"
    os.kill(tmux.pane_pid(), signal.SIGHUP)
