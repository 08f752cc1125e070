"""Every script in benchmarks/ runs by its path, from any folder, as its docstring says."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))
PARTS = {"in_turns", "minimal_app", "screen_pty"}  # of other scripts
TORCH = importlib.util.find_spec("torch") is not None


@pytest.mark.skipif(not TORCH, reason="half of them measure torch")
@pytest.mark.parametrize("script", [path for path in SCRIPTS if path.stem not in PARTS],
                         ids=lambda path: path.stem)  # fmt: skip
def test_a_script_says_by_path_what_it_takes(script: Path, tmp_path: Path) -> None:
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "LLMPROF_HOME": str(tmp_path)}
    words = [sys.executable, str(script), "--help"]
    done = subprocess.run(
        words, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {script.name}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_what_a_docstring_has_one_type_is_there(script: Path) -> None:
    words = script.read_text("utf-8").split('"""')[1].split()
    named = [word for word in words if word.strip("`").startswith("benchmarks/")]
    assert all((ROOT / word.strip("`.,")).is_file() for word in named)
    assert "-m" not in words
