"""The coverage grid on the screen: every kind of cell, a legend, live, in any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from llmprof.core import events as ev
from llmprof.core.catalog.experiments import build_experiment
from llmprof.core.figures.outcomes import CaseOutcome
from llmprof.core.spec.experiment import Experiment
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.bench.coverage_grid import _OUTCOME_ROLES, _OUTCOME_SIGNS, CoverageGrid
from llmprof.tui.kit.look import ASCII
from tests.builders.journals import Writer, experiment
from tests.tui.apps import make_app
from tests.tui.frames import contains, settle, text_of

sizes = pytest.mark.parametrize("size", [(80, 24), (120, 30)], ids=lambda s: f"{s[0]}x{s[1]}")
ALL_KINDS = experiment(("small", "medium"), 4, ("forward", "forward-backward", "train"))


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))


def fail(writer: Writer, index: int, **failure: Any) -> None:
    writer.put(ev.CaseFailed(t=writer.t, case=index, failure=ev.Failure(**failure)))


def mixed_run(root: Path, plan: Experiment = ALL_KINDS) -> Run:
    """Of six cases: done, failed, OOM, OOM predicted, unsupported, missing."""
    run = RunStore(root).create("mixed")
    writer = Writer(run)
    writer.begin(plan)
    writer.case(0, plan.cases()[0])
    fail(writer, 1, kind="error", message="ValueError: no")
    fail(writer, 2, kind="oom", message="out of memory", phase="backward")
    fail(writer, 3, kind="oom", message="needs 90 GiB", predicted=True)
    fail(writer, 4, kind="unsupported", message="no bf16")
    writer.end("stopped")
    return run


def opened(root: Path, run: Run, **options: Any) -> LlmprofApp:
    return make_app(root, watch=run, **options)[0]


def grid_lines(app: LlmprofApp) -> list[str]:
    region = app.screen.query_one(CoverageGrid).region
    lines = text_of(app).splitlines()[region.y : region.bottom]
    return [line[region.x : region.right].rstrip() for line in lines]


@sizes
async def test_every_kind_of_cell_has_its_place_and_its_word(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app = opened(tmp_path, mixed_run(tmp_path))
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "medium"))
        await pilot.press("g")
        await settle(pilot, lambda: contains(app, "Coverage "))
        lines = grid_lines(app)
        assert lines[0].startswith("Coverage model size down, mode across")
        assert lines[1].split() == ["forward", "forward-backward", "train"]
        assert lines[2].split() == ["small", "✓", "done", "x", "failed", "O", "OOM"]
        assert lines[3].split() == ["medium", "P", "won't", "fit", "u", "unsupported", "?",
                                    "missing"]  # fmt: skip
        legend = " ".join(line for line in lines[4:] if line)
        for word in ("✓ 1 done", "x 1 failed", "O 1 OOM", "P 1 OOM (predicted)",
                     "u 1 unsupported", "? 1 missing"):  # fmt: skip
            assert word in legend
        assert contains(app, "Results")
        await pilot.press("g")
        await settle(pilot, lambda: not contains(app, "Coverage "))


async def test_a_live_run_fills_the_grid(tmp_path: Path) -> None:
    plan = experiment(("small", "medium"), 3, ("train",))
    app, starter = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        app.start_run(plan, ("llmprof", "run"), lambda: None)
        await settle(pilot, lambda: bool(starter.writers))
        await pilot.press("escape", "g")
        await settle(pilot, lambda: contains(app, "· 2 to come"))
        writer = starter.writers[0]
        writer.case(0, plan.cases()[0], finish=False)
        await settle(pilot, lambda: contains(app, "1 running") and contains(app, "1 to come"))
        writer.put(ev.CaseDone(t=writer.t, case=0))
        fail(writer, 1, kind="oom", message="out of memory")
        await settle(pilot, lambda: contains(app, "✓ 1 done") and contains(app, "O 1 OOM"))
        assert not contains(app, "to come")


@sizes
async def test_the_whole_attention_grid_has_room(tmp_path: Path, size: tuple[int, int]) -> None:
    plan = build_experiment("attention", {})
    run = RunStore(tmp_path).create("attention")
    writer = Writer(run)
    writer.begin(plan)
    for index, case in enumerate(plan.cases()):
        if case.context_length == 16384:
            fail(writer, index, kind="oom", message="out of memory")
        else:
            writer.case(index, case, steps=1)
    writer.end()
    app = opened(tmp_path, run)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "d=128"))
        await pilot.press("g")
        await settle(pilot, lambda: contains(app, "context across"))
        lines = grid_lines(app)
        assert lines[1].split() == ["256", "1024", "4096", "8192", "16384"]
        assert contains(app, "✓ 48 done   O 12 OOM")
        row = next(line for line in lines if "d=128 naive default" in line)  # the case in sight
        assert row.count("✓") == 4
        assert row.split()[-2:] == ["O", "OOM"]


async def test_the_marked_cell_is_the_case_in_sight(tmp_path: Path) -> None:
    app = opened(tmp_path, mixed_run(tmp_path))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "medium"))
        await pilot.press("g", "home", "down", "down")
        await settle(pilot, lambda: contains(app, "Coverage "))
        grid = app.screen.query_one(CoverageGrid)
        marked = [text for row in grid._rows for text, role in row if role.endswith("+cursor")]
        assert marked == ["O OOM"]


async def test_plain_ascii_and_a_strangers_names(tmp_path: Path) -> None:
    plan = experiment(("evil[/]\x1b[31m", "[@click=app.quit]x"), 4, ALL_KINDS.modes)
    app = opened(tmp_path, mixed_run(tmp_path, plan), look=ASCII, encoding="ascii")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "evil"))
        await pilot.press("g")
        await settle(pilot, lambda: contains(app, "Coverage "))
        assert "evil[/][31m" in grid_lines(app)[2]
        assert "+ done" in grid_lines(app)[2]
        assert text_of(app).isascii()


def test_every_word_of_a_cell_has_a_role_and_a_sign_of_its_own() -> None:
    words = get_args(CaseOutcome)
    assert set(words) <= set(_OUTCOME_ROLES)
    signs = [_OUTCOME_SIGNS[word] for word in words if word in _OUTCOME_SIGNS]
    assert len(set(signs)) == len(signs) == len(words) - 1  # done has the tick


async def test_one_case_has_no_grid(tmp_path: Path) -> None:
    plan = experiment(("small",), 3)
    run = RunStore(tmp_path).create("one")
    writer = Writer(run)
    writer.begin(plan)
    writer.case(0, plan.cases()[0])
    writer.end()
    app = opened(tmp_path, run)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "small"))
        await pilot.press("g")
        await settle(pilot, lambda: contains(app, "one case only"))
        assert len([line for line in grid_lines(app) if line]) == 1
