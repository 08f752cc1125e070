"""`llmprof watch --screen` in a terminal: the screen, then the script's output and exit code."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.builders.watched_scripts import PRELUDE
from tests.tui.terminal import Terminal

SCRIPT = """
print("it begins")
model = net()
optimizer = torch.optim.SGD(model.parameters(), 0.01)
while not os.path.exists(sys.argv[1]):
    for (x,) in loader(5):
        model(x).square().mean().backward()
        optimizer.step()
print("it ends")
sys.exit(7)
"""


def test_the_screen_and_then_the_output(tmp_path: Path) -> None:
    script, end = tmp_path / "train.py", tmp_path / "end"
    script.write_text(PRELUDE + SCRIPT, "utf-8")
    words = ("watch", "--no-sampler", "--screen", "--", sys.executable, str(script), str(end))
    with Terminal(tmp_path, *words) as terminal:
        terminal.wait("train")
        terminal.wait("Parts of a step")
        terminal.send("q")
        terminal.wait("the training goes on")
        end.touch()
        terminal.wait("it ends")
        assert terminal.end() == 7
        assert terminal.restored


def test_a_script_that_does_not_train_prints_and_ends(tmp_path: Path) -> None:
    words = (
        "watch",
        "--screen",
        "--",
        sys.executable,
        "-c",
        "print('nothing'); raise SystemExit(3)",
    )
    with Terminal(tmp_path, *words) as terminal:
        terminal.wait("nothing")
        assert terminal.end() == 3
