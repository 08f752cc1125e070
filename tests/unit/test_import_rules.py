"""Which process loads what: looked up in sys.modules of a fresh interpreter."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

RULES = {
    "llmprof.cli.main": ("torch", "textual", "rich", "numpy", "pynvml"),
    "llmprof.cli.run": ("torch", "textual", "numpy", "pynvml"),
    "llmprof.cli.show": ("torch", "textual", "pynvml"),
    "llmprof.core.engine.loop": ("torch", "textual", "rich"),
    "llmprof.core.store.journal": ("torch", "textual", "rich", "numpy", "pynvml"),
    "llmprof.core.report": ("torch", "textual", "rich"),
    "llmprof.core.devices.__main__": ("torch", "textual", "rich"),
    "llmprof.tui.app": ("torch", "pynvml", "llmprof.core.worker"),
}


@pytest.mark.parametrize(("module", "forbidden"), RULES.items())
def test_a_room_does_not_load_what_it_must_not(module: str, forbidden: tuple[str, ...]) -> None:
    code = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert module in loaded
    assert not loaded & set(forbidden)


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def test_only_the_worker_names_torch() -> None:
    rooms = ("core", "tui", "src/llmprof/cli")
    files = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    assert len(files) > 50
    worker = ROOT / "core" / "worker"
    assert [p for p in files if "torch" in imported(p) and worker not in p.parents] == []
    assert [p for p in files if "core" in imported(p) or "tui" in imported(p)] == []
