"""What `llmprof --help` and `llmprof presets` load: no more than what they print is made of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import json, sys
from llmprof.cli.main import main
code = main(json.loads(sys.argv[1]))
json.dump(sorted(sys.modules), sys.stderr)
sys.exit(code)
"""
DOOR = {"llmprof", "llmprof.version", "llmprof.cli", "llmprof.cli.main", "llmprof.cli.exits",
        "llmprof.cli.streams"}  # fmt: skip


def loaded(home: Path, *words: str) -> set[str]:
    """All modules of a process that has run a command."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, json.dumps(words)],
        capture_output=True, text=True, check=True,
        env={**os.environ, "LLMPROF_HOME": str(home), "LLMPROF_PRESETS": str(home)},
    )  # fmt: skip
    assert done.stdout
    return set(json.loads(done.stderr))


def at_start() -> set[str]:
    """Those of a process that does nothing: an editable install has a finder, which loads some."""
    done = subprocess.run(
        [sys.executable, "-c", "import json, sys; json.dump(sorted(sys.modules), sys.stdout)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(json.loads(done.stdout))


def own(modules: set[str]) -> set[str]:
    """Those of llmprof."""
    return {name for name in modules if name.split(".")[0] == "llmprof"}


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_what_is_only_printed_loads_the_front_door_alone(word: str, tmp_path: Path) -> None:
    found = loaded(tmp_path, word)
    assert own(found) == DOOR
    found -= at_start()
    assert not found & {"argparse", "pathlib", "shutil", "select", "msgspec", "platformdirs"}


def test_presets_load_the_catalog_and_a_table(tmp_path: Path) -> None:
    found = loaded(tmp_path, "presets")
    rooms = {name.split(".")[2] for name in own(found) if name.startswith("llmprof.core.")}
    assert rooms == {"system", "spec", "catalog", "report"}
    assert len(own(found)) <= 26
    assert not found & {"torch", "numpy", "psutil", "textual", "rich", "hashlib", "tempfile"}


@pytest.mark.parametrize("words", [("experiments",), ("presets", "--cards")])
def test_lists_load_no_table_of_a_run(words: tuple[str, ...], tmp_path: Path) -> None:
    found = own(loaded(tmp_path, *words))
    assert not found & {
        f"llmprof.core.report.{name}" for name in ("registry", "markdown", "timing")
    }
