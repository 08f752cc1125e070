"""Each example of CONTRIBUTING.md, added to a copy of the tree, does what the document says."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from llmprof.core import events as ev
from llmprof.core.store.run import RunStore
from tests.builders.handmade import experiment, measured, opening, write
from tests.contributing import ROOT, files_of, run_in, sections, tree_with

RUN = ("-m", "llmprof")


def run_by_hand(home: Path, times: list[float]) -> None:
    """A run whose only case has steps of these times."""
    plan = experiment(("train",))
    events = [*opening(plan), *measured(0, plan.cases()[0], times)]
    run = RunStore(home / "runs").create("by-hand")
    write(run.journal, [*events, ev.RunDone(t=10**11, outcome="complete")])


def test_every_example_is_in_three_files_at_most() -> None:
    assert len(sections()) == 7
    assert all(1 <= len(files_of(heading)) <= 3 for heading in sections())


@pytest.mark.parametrize("heading", sections())
def test_an_example_is_well_written(heading: str, tmp_path: Path) -> None:
    tree = tree_with(heading, tmp_path)
    names = [name for name in files_of(heading) if name.endswith(".py")]
    if names:
        run_in(tree, "-m", "ruff", "check", *names)
        run_in(tree, "-m", "ruff", "format", "--check", *names)


def test_a_preset(tmp_path: Path) -> None:
    tree = tree_with("A preset", tmp_path)
    listed = json.loads(run_in(tree, *RUN, "presets", "--json"))
    assert "nano" in {model["name"] for model in listed}


def test_an_experiment(tmp_path: Path) -> None:
    tree = tree_with("An experiment", tmp_path)
    listed = run_in(tree, *RUN, "run", "batches", "--device=cpu", "--dry-run")
    assert all(f"batch {size}" in listed for size in (1, 2, 8))
    smoke = run_in(tree, *RUN, "run", "batches", "--smoke", "--device=cpu", "--dry-run")
    assert "tiny" in smoke


def test_a_metric_of_the_card(tmp_path: Path) -> None:
    tree = tree_with("A metric of the card", tmp_path)
    printed = run_in(tree, "-c", """
from llmprof.core.devices.metrics import METRICS
from tests.unit.fake_binding import Clock, FakeNvml, cards_of

cards = cards_of(FakeNvml(), Clock())
print(METRICS["performance_state"][1], cards.read().cards[0].metrics["performance_state"].value)
""")  # fmt: skip
    assert printed == "performance state, from 0, the fastest, to 15 2\n"


def test_a_table(tmp_path: Path) -> None:
    tree = tree_with("A table", tmp_path)
    run_by_hand(tmp_path / "home", [12.0, 10.0, 10.0])
    shown = run_in(tree, *RUN, "show", "last")
    assert "First measured steps" in shown
    assert re.search(r"\| +60\.0+ \| +50\.0+ \|", shown)


@pytest.mark.parametrize(("ms", "said"), [(0.01, True), (10.0, False)])
def test_a_lint_rule(tmp_path: Path, ms: float, said: bool) -> None:
    tree = tree_with("A lint rule", tmp_path)
    run_by_hand(tmp_path / "home", [ms] * 4)
    shown = run_in(tree, *RUN, "show", "last")
    assert ("a step takes 50 µs, of which reading the clocks is part" in shown) == said


def test_a_view(tmp_path: Path) -> None:
    tree = tree_with("A view", tmp_path)
    run_by_hand(tmp_path / "home", [10.0, 10.0])
    printed = run_in(tree, "-c", """
import asyncio, sys
from pathlib import Path
from llmprof.core.store.run import RunStore
from tests.tui.apps import make_app
from tests.tui.frames import contains, settle, text_of

async def look(home):
    store = RunStore(home / "runs")
    app, _ = make_app(home, watch=store.find(None))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("8")
        await settle(pilot, lambda: app.current_mode == "labels")
        await settle(pilot, lambda: contains(app, "tiny · train"))
        print(text_of(app))

asyncio.run(look(Path(sys.argv[1])))
""", str(tmp_path / "home"))  # fmt: skip
    assert "8 Labels" in printed
    script = Path(sys.executable).with_name("lint-imports")
    assert "0 broken" in run_in(tree, str(script))


@pytest.mark.parametrize("root", ["core", "tui"])
def test_the_rooms_are_listed_in_their_order(root: str) -> None:
    document = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    table = document.split(f"| room of `{root}/` |")[1].split("\n\n")[0]
    cells = re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
    rooms = [room for cell in cells for room in re.findall(r"`(\w+)`", cell)]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    (layers,) = (
        [layer.split(" | ") for layer in reversed(contract["layers"])]
        for contract in contracts["contracts"]
        if contract.get("containers") == [f"llmprof.{root}"]
    )
    floor = {room: at for at, layer in enumerate(layers) for room in layer}
    assert sorted(rooms) == sorted(floor)
    assert [floor[room] for room in rooms] == sorted(floor[room] for room in rooms)
