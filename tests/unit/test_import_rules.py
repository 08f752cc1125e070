"""Which process loads what: looked up in sys.modules of a fresh interpreter."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from llmprof.core.spec.case import Probe
from llmprof.core.system import modules_by_name

ROOT = Path(__file__).parents[2]

RULES = {
    "llmprof.cli.main": ("torch", "textual", "rich", "numpy", "pynvml"),
    "llmprof.cli.run": ("torch", "textual", "numpy", "pynvml"),
    "llmprof.cli.show": ("torch", "textual", "pynvml"),
    "llmprof.core.engine.loop": ("torch", "textual", "rich"),
    "llmprof.core.store.journal": ("torch", "textual", "rich", "numpy", "pynvml"),
    "llmprof.core.report.formats": ("torch", "textual", "rich"),
    "llmprof.core.devices.__main__": ("torch", "textual", "rich"),
    "llmprof.core.track.tracked": ("torch", "textual", "rich", "numpy", "pynvml"),
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


def test_only_the_worker_and_track_name_torch() -> None:
    rooms = ("core", "tui", "src/llmprof/cli")
    files = [path for room in rooms for path in (ROOT / room).rglob("*.py")]
    assert len(files) > 50
    allowed = {ROOT / "core" / "worker", ROOT / "core" / "track"}
    assert [p for p in files if "torch" in imported(p) and not allowed & set(p.parents)] == []
    assert [p for p in files if "core" in imported(p) or "tui" in imported(p)] == []


BY_NAME = {
    name: value for name, value in vars(modules_by_name).items() if isinstance(value, str)
} | {probe: f"{modules_by_name.PROBES}.{probe}" for probe in get_args(Probe)}


@pytest.mark.parametrize(
    "module", [value for name, value in BY_NAME.items() if not name.startswith("_")]
)
def test_a_module_started_by_name_is_there(module: str) -> None:
    assert importlib.util.find_spec(module) is not None


def test_modules_started_by_name_are_named_in_one_file() -> None:
    literal = re.compile(r"""f?["']llmprof\.core\.[a-z_.]+["'{]""")
    assert literal.search('"llmprof.core.engine"')
    files = [
        path for room in ("core", "tui", "src/llmprof/cli") for path in (ROOT / room).rglob("*.py")
    ]
    own = ROOT / "core" / "system" / "modules_by_name.py"
    assert [path for path in files if path != own and literal.search(path.read_text("utf-8"))] == []
