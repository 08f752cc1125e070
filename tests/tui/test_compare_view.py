"""The Compare view: runs marked in Runs, refused or compared, table by table."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from llmprof.core.report.run_comparison import RunComparison
from llmprof.core.report.run_comparison_exports import render
from llmprof.core.report.two_runs import TwoRuns
from llmprof.core.store.journal import replay
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.compare.view import CompareView
from llmprof.tui.host import ExportFormat
from llmprof.tui.runs.export import ExportDialog
from tests.builders import journals
from tests.tui.apps import make_app, open_runs, sizes, table
from tests.tui.frames import contains, settle, text_of

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def recorded(root: Path, name: str, label: str, device: str = "NVIDIA H200") -> Run:
    run = RunStore(root).create(label)
    with zipfile.ZipFile(FIXTURES / f"{name}.llmprof") as archive:
        lines = archive.read("journal.jsonl")
    run.journal.write_bytes(lines.replace(b'"NVIDIA H200"', b'"%s"' % device.encode()))
    run.rename(label)
    return run


def marked_names(app: LlmprofApp) -> list[str]:
    return [run.label for run in app.session.marked]


async def marked(pilot: Pilot[None], *runs: Run) -> CompareView:
    """Mark runs with the keys and go to the view."""
    await open_runs(pilot)
    app = pilot.app
    assert isinstance(app, LlmprofApp)
    await settle(pilot, lambda: len(table(app).rows) >= len(runs))
    for run in runs:
        table(app).put_cursor(run.id)
        await pilot.press("space")
    await pilot.press("c")
    await settle(pilot, lambda: app.current_mode == "compare")
    view = app.base_view
    assert isinstance(view, CompareView)
    return view


@sizes
async def test_two_marked_runs_are_compared(tmp_path: Path, size: tuple[int, int]) -> None:
    first = recorded(tmp_path, "processes-h200", "before")
    second = recorded(tmp_path, "processes-h200", "after")
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        view = await marked(pilot, first, second)
        await settle(pilot, lambda: view.found is not None)
        assert contains(app, "A before   B after")
        assert contains(app, "same device and software, as far as is known")
        assert contains(app, "ctx 512 · fp32: no difference beyond the noise")
        assert contains(app, "backward")
        assert contains(app, "not distinguished")
        assert contains(app, "table 2 of 3")
        await pilot.press("right_square_bracket")
        await settle(pilot, lambda: contains(app, "Peak memory"))
        await pilot.press("right_square_bracket", "left_square_bracket", "left_square_bracket")
        await settle(pilot, lambda: contains(app, "Step by phase"))
        await pilot.press("b")
        await settle(pilot, lambda: contains(app, "A after   B before"))
        await pilot.press("2")
        await settle(pilot, lambda: contains(app, "A: after") and contains(app, "B: before"))


@pytest.mark.parametrize("extension", ["md", "csv", "json"])
async def test_a_comparison_is_exported_as_the_command_does(
    tmp_path: Path, extension: ExportFormat
) -> None:
    first = recorded(tmp_path, "processes-h200", "before")
    second = recorded(tmp_path, "processes-h200", "after")
    app, _ = make_app(tmp_path)
    target = tmp_path / f"compared.{extension}"
    async with app.run_test(size=(120, 30)) as pilot:
        view = await marked(pilot, first, second)
        await settle(pilot, lambda: view.found is not None)
        await pilot.press("e")
        await settle(pilot, lambda: isinstance(app.screen, ExportDialog))
        dialog = app.screen
        assert isinstance(dialog, ExportDialog)
        dialog.query_one("#path", Input).value = str(target)
        await settle(pilot, lambda: dialog.format == extension and bool(dialog.text))
        await pilot.press("ctrl+s")
        await settle(pilot, lambda: app.screen is not dialog)
    found = RunComparison(TwoRuns(replay(first.journal), replay(second.journal)), "before", "after")
    assert extension != "html"
    assert target.read_text("utf-8") == render(found, extension)


async def test_a_refused_comparison_is_not_exported(tmp_path: Path) -> None:
    first = recorded(tmp_path, "processes-h200", "before")
    second = recorded(tmp_path, "processes-h200", "after", "NVIDIA A100")
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        view = await marked(pilot, first, second)
        await settle(pilot, lambda: bool(view.refused))
        assert view.check_action("export", ()) is False
        await pilot.press("F")
        await settle(pilot, lambda: not view.refused)
        assert view.check_action("export", ()) is True


async def test_marks_come_and_go(tmp_path: Path) -> None:
    runs = [recorded(tmp_path, "interleave-h200", name) for name in ("one", "two", "three")]
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30), notifications=True) as pilot:
        await open_runs(pilot)
        await settle(pilot, lambda: len(table(app).rows) == 3)
        await pilot.press("c")
        await settle(pilot)
        assert app.current_mode == "runs"  # there is nothing to compare yet
        for run in runs:
            table(app).put_cursor(run.id)
            await pilot.press("space")
        assert marked_names(app) == ["two", "three"]
        await pilot.press("space")
        assert marked_names(app) == ["two"]
        await pilot.press("5")
        await settle(pilot, lambda: contains(app, "with the space bar"))


async def test_unlike_devices_are_refused_until_forced(tmp_path: Path) -> None:
    first = recorded(tmp_path, "processes-h200", "before")
    other = recorded(tmp_path, "processes-h200", "after", device="NVIDIA B200")
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        view = await marked(pilot, first, other)
        await settle(pilot, lambda: contains(app, "not compared: not the same device"))
        assert not contains(app, "Step by phase")
        await pilot.press("F")
        await settle(pilot, lambda: contains(app, "Step by phase"))
        assert contains(app, "forced: not the same device")
        assert view.forced


@sizes
async def test_why_a_case_is_not_judged_is_told(tmp_path: Path, size: tuple[int, int]) -> None:
    store = RunStore(tmp_path)
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        view = await marked(pilot, journals.finished(store), journals.finished(store))
        await settle(pilot, lambda: view.found is not None)
        assert contains(app, "failed check requested-observed in A and B"), text_of(app)
        heads = next(line for line in text_of(app).splitlines() if "A (ms)" in line)
        assert heads.split()[-1] == "Verdict"  # also in 80 columns, where it is cut


async def test_a_run_that_goes_away_is_told(tmp_path: Path) -> None:
    first = recorded(tmp_path, "interleave-h200", "before")
    second = recorded(tmp_path, "interleave-h200", "after")
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        view = await marked(pilot, first, second)
        await settle(pilot, lambda: view.found is not None)
        shutil.rmtree(second.path)
        await pilot.press("u")
        await settle(pilot, lambda: contains(app, f"not compared: {second.id} was deleted"))
        assert app.return_code is None


async def test_a_narrow_header_keeps_how_the_run_ended(tmp_path: Path) -> None:
    run, writer = journals.live_run(tmp_path)
    writer.journal.close()
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: text_of(app).split("\n")[0].rstrip().endswith("interrupted"))
