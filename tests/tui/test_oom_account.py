"""Enter on a case that ran out of memory: what was alive, and what would have made it fit."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from llmprof.core import events as ev
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.units import MIB
from llmprof.tui.kit.row_dialog import RowDialog
from llmprof.tui.kit.table_dialog import TableDialog
from llmprof.tui.runs.preview import RunPreview
from tests.builders import journals
from tests.tui.apps import make_app, open_runs, sizes, table
from tests.tui.frames import contains, settle, text_of

FIXTURES = Path(__file__).parents[1] / "fixtures"
CARD = ev.Environment(
    device="cuda:0",
    device_name="Some Card",
    torch="2.11",
    memory_total_bytes=24 << 30,
    memory_free_bytes=23 << 30,
    capability=(9, 0),
)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def recorded(root: Path) -> Run:
    """A run whose second case ran out of memory, with the allocator's history of a repeat."""
    plan = journals.experiment(("tiny", "small"), 5)
    run = RunStore(root).create(plan.name)
    writer = journals.Writer(run)
    writer.begin(plan)
    writer.put(CARD)
    writer.case(0, plan.cases()[0], 40.0)
    writer.fail(1)
    writer.put(
        ev.MemoryAtFailure(
            case=1, source="cuda allocator", phase="backward", bytes_asked=3 << 30,
            live={"activations": 700 * MIB, "parameters": 500 * MIB},
            largest=(ev.LiveAllocation(size=60 * MIB, count=7, category="activations",
                                       phase="forward", what="model.py:178 forward"),),
        )
    )  # fmt: skip
    writer.end()
    return run


@sizes
async def test_bench_opens_what_was_alive(tmp_path: Path, size: tuple[int, int]) -> None:
    run = recorded(tmp_path)
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: len(table(app).rows) == 2)
        await pilot.press("home", "enter")
        await settle(pilot)
        assert isinstance(app.screen, RowDialog)  # a case that was measured: its row
        await pilot.press("escape", "end", "enter")
        await settle(pilot, lambda: contains(app, "parameters"))
        assert isinstance(app.screen, TableDialog)
        for said in ("activations", "700.0", "recorded", "model.py:178 forward (7 blocks)"):
            assert contains(app, said), (said, text_of(app))
        await pilot.press("end")
        await settle(pilot, lambda: contains(app, "It fits with"))
        assert contains(app, "llmprof run")
        await pilot.press("escape")
        await settle(pilot)
        assert not isinstance(app.screen, TableDialog)


@sizes
async def test_the_preview_of_runs_opens_it_as_well(tmp_path: Path, size: tuple[int, int]) -> None:
    journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await open_runs(pilot)
        await pilot.press("tab")
        assert isinstance(app.focused, RunPreview)
        await pilot.press("down", "enter")
        await settle(pilot, lambda: contains(app, "sum at the peak") or contains(app, "predicted"))
        assert isinstance(app.screen, TableDialog)
        assert contains(app, "By prediction") or contains(app, "predicted")
        await pilot.press("escape", "up", "enter")  # the first was measured: its run opens
        await settle(pilot, lambda: contains(app, "finished"))
        assert app.current_mode == "bench"


async def test_a_recording_of_a_card_has_its_account(tmp_path: Path) -> None:
    run = RunStore(tmp_path).create("attention")
    with zipfile.ZipFile(FIXTURES / "attention-oom-h100.llmprof") as archive:
        run.journal.write_bytes(archive.read("journal.jsonl"))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, lambda: any("oom" in row.cells[0].text for row in table(app).rows))
        failed = next(row.key for row in table(app).rows if "oom" in row.cells[0].text)
        table(app).put_cursor(failed)
        await pilot.press("enter")
        await settle(pilot, lambda: contains(app, "sum at the peak"))
        for said in ("scores", "tensors × batch × context × context", "memory of NVIDIA H100"):
            assert contains(app, said), (said, text_of(app))
        await pilot.press("end")
        await settle(pilot, lambda: contains(app, "A fused kernel (SDPA) never has the scores"))


async def test_what_cannot_be_worked_out_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError("no such formula")

    monkeypatch.setattr("llmprof.core.report.oom_account.oom_account", fails)
    app, _ = make_app(tmp_path, watch=recorded(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: len(table(app).rows) == 2)
        await pilot.press("end", "enter")
        await settle(pilot, lambda: contains(app, "not worked out: no such formula"))
