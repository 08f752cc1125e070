"""What the first frame loads: the view in sight and what starts it, nothing that can wait."""

from __future__ import annotations

from pathlib import Path

from llmprof.core.store.run import RunStore
from tests.builders import journals
from tests.tui.terminal import Terminal

CODE = """
import os, pathlib, sys
from llmprof.cli.main import main
from llmprof.tui.app import LlmprofApp

def stands(self):
    pathlib.Path(sys.argv[1]).write_text("\\n".join(sorted(sys.modules)))
    os._exit(0)

LlmprofApp._after_first_frame = stands
main(sys.argv[2:])
"""
VIEWS = {"bench", "runs", "kernels", "memory", "compare", "loop", "monitor"}


def at_first_frame(home: Path, *words: str) -> set[str]:
    """All modules of a screen whose first frame stands."""
    listed = home / "modules"
    with Terminal(home, str(listed), *words, program=("-c", CODE), size=(120, 30)) as terminal:
        assert terminal.end() == 0
        assert "Commands" in terminal.text
    return set(listed.read_text("utf-8").split())


def rooms(modules: set[str], part: str) -> set[str]:
    """The rooms of core or tui that some modules are in."""
    prefix = f"llmprof.{part}."
    return {name.removeprefix(prefix).split(".")[0] for name in modules if name.startswith(prefix)}


def test_the_first_frame_loads_nothing_that_can_wait(tmp_path: Path) -> None:
    found = at_first_frame(tmp_path)
    assert rooms(found, "tui") & VIEWS == {"bench"}
    assert {name for name in found if name.startswith("llmprof.tui.bench.")} == {
        f"llmprof.tui.bench.{name}" for name in ("view", "bindings", "setup", "equivalent")
    }
    later = ("starts", "help", "commands", "session.machine", "session.run_index", "session.feed",
             "kit.snapshot", "kit.table", "kit.dialog", "chart.scale", "chart.plot")  # fmt: skip
    assert not found & {f"llmprof.tui.{name}" for name in later}
    assert rooms(found, "core") == {"system", "spec", "catalog", "store", "document"}
    assert {name for name in found if name.startswith("llmprof.core.document.")} == {
        "llmprof.core.document.palette"
    }
    assert len({name for name in found if name.split(".")[0] == "llmprof"}) <= 74
    assert not found & {"torch", "numpy", "psutil", "pynvml", "argparse", "hashlib", "_hashlib"}


def test_a_run_that_is_watched_loads_no_other_view(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path / "runs"))
    found = at_first_frame(tmp_path, "screen", run.id)
    assert rooms(found, "tui") & VIEWS == {"bench"}
    assert "llmprof.tui.bench.live" in found
    assert not found & {"torch", "numpy", "psutil", "pynvml"}
