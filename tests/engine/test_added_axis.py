"""The axis that CONTRIBUTING.md adds in two files is measured, shown, exported and resumed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.contributing import files_of, run_in, tree_with
from tests.engine.runs import SMALL

RUN = ("-m", "llmprof")
FORM = """
import asyncio, sys
from pathlib import Path
from tests.tui.apps import make_app
from tests.tui.frames import contains, settle

async def look(home):
    app, _ = make_app(home)
    async with app.run_test(size=(120, 60)) as pilot:
        await settle(pilot, lambda: contains(app, "Clipping"))

asyncio.run(look(Path(sys.argv[1])))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tree_with("An axis", tmp_path_factory.mktemp("axis"))


@pytest.fixture(scope="module")
def ran(tree: Path) -> Path:
    """A run with and without clipping, measured by the copy; where its exports are."""
    out = tree.parent
    exports = [f"--export={out / name}" for name in ("r.md", "r.csv", "r.json")]
    words = ["--mode=train", "--precision=fp32,fp16", "--clip=none,norm", "--measure-steps=2"]
    run_in(tree, *RUN, "run", *SMALL, *words, *exports)
    return out


def test_two_files_are_enough() -> None:
    assert files_of("An axis") == {"core/spec/axes.py", "core/worker/trainer.py"}


def test_the_command_line_has_it(tree: Path) -> None:
    printed = run_in(tree, *RUN, "run", "--help")
    assert "--clip" in printed
    assert "clip gradients to norm 1" in " ".join(printed.split())


def test_it_is_refused_where_nothing_is_updated(tree: Path) -> None:
    run_in(tree, "-c", """
import sys
from llmprof.cli.exits import USAGE
from llmprof.cli.main import main

sys.exit(main(["run", "attention", "--clip=norm", "--dry-run"]) != USAGE)
""")  # fmt: skip


def test_the_form_has_it(tree: Path) -> None:
    if "ATTENTIONS" in (tree / "tui" / "bench" / "setup.py").read_text("utf-8"):
        pytest.skip("the form lists its axes by hand")
    run_in(tree, "-c", FORM, str(tree.parent / "form"))


def headers(report: str) -> dict[str, list[str]]:
    """The headings of each table, by its title."""
    found = re.findall(r"^## (.+)\n\n(\|.+\|)$", report, re.MULTILINE)
    return {title: [cell.strip() for cell in row.split("|")[1:-1]] for title, row in found}


def test_tables_and_grid_have_it(ran: Path) -> None:
    report = (ran / "r.md").read_text("utf-8")
    having = {title for title, row in headers(report).items() if "Clipping" in row}
    assert {"Summary", "Forward", "Coverage", "Peak resident memory by phase"} <= having
    assert re.search(r"\| unclipped +\| done \(1\)", report)
    assert re.search(r"\| norm +\| done \(2\)", report)
    assert re.search(r"\| clipped +\| optimizer +\|", report)  # what it acts on


def test_exports_have_it(ran: Path) -> None:
    cases = json.loads((ran / "r.json").read_text("utf-8"))["cases"]
    assert [case["status"] for case in cases] == ["ok"] * 4
    assert [case["config"]["clip"] for case in cases] == [None, "norm", None, "norm"]
    assert "clip" in (ran / "r.csv").read_text("utf-8").splitlines()[0].split(",")
