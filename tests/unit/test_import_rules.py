"""Which process loads what: looked up in sys.modules of a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

RULES = {
    "llmprof.cli.main": ("torch", "textual", "rich", "numpy", "pynvml"),
    "llmprof.cli.run": ("torch", "textual", "numpy", "pynvml"),
    "llmprof.cli.show": ("torch", "textual", "pynvml"),
    "llmprof.core.engine.loop": ("torch", "textual", "rich"),
    "llmprof.core.journal": ("torch", "textual", "rich", "numpy", "pynvml"),
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
