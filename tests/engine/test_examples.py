"""The examples run as they stand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from llmprof.core.store.journal import replay
from tests.builders.tracked_scripts import newest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_own_loop(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "own_loop.py"), "--steps", "10", "--device", "cpu"],
        env={**os.environ, "LLMPROF_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    view = replay(newest(tmp_path).journal)
    (loop,) = view.loops
    assert view.outcome == "complete"
    assert loop.steps == loop.started.total_steps == 10
    parts = {"input", "forward", "loss", "backward", "clip", "optimizer", "after"}
    assert parts <= set(loop.rows.parts)
    assert loop.rows.values == ("loss",)
