"""The Runs view: its keys, and what the disk or another user refuses."""

from __future__ import annotations

import errno
import os
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from textual.pilot import Pilot

from llmprof.core.document.results import outlook_lines
from llmprof.core.store import lock
from llmprof.core.store.journal import replay
from llmprof.core.store.lock import Holder
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.kit.ask import AskDialog
from llmprof.tui.runs.export import ExportDialog
from llmprof.tui.runs.name_dialog import NameDialog
from llmprof.tui.session.run_index import case_line
from tests.builders import journals
from tests.builders.journals import live_run
from tests.tui.apps import make_app, open_runs, sizes, table
from tests.tui.frames import contains, settle, text_of

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@sizes
async def test_keys_of_the_runs_view(tmp_path: Path, size: tuple[int, int]) -> None:
    store = RunStore(tmp_path)
    first = journals.finished(store, ("tiny",))
    second = journals.finished(store, ("small", "medium"))
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        view = await open_runs(pilot)
        await settle(pilot, lambda: len(table(app).rows) == 2)
        await pilot.press("end", "home", "down", "up", "k", "j", "pageup", "pagedown")
        chosen = view.current
        assert chosen is not None
        other = second if chosen.id == first.id else first
        await pilot.press("n")
        assert isinstance(app.screen, NameDialog)
        await pilot.press(*"mine", "enter")
        await settle(pilot, lambda: contains(app, "mine"))
        assert chosen.label == "mine"
        await pilot.press("n", "escape")
        assert chosen.label == "mine"
        await pilot.press("slash", *"mine")
        await settle(pilot, lambda: table(app).shown_keys == [chosen.id])
        await pilot.press(*"zzz")
        await settle(pilot, lambda: table(app).shown_keys == [])
        assert view.current is None  # so that no key acts on a run that is out of sight
        await pilot.press("escape")
        await settle(pilot, lambda: len(table(app).shown_keys) == 2)
        await pilot.press("slash", *"mine", "enter", "escape")
        await settle(pilot, lambda: len(table(app).shown_keys) == 2)
        table(app).put_cursor(other.id)
        await pilot.press("d")
        assert isinstance(app.screen, AskDialog)
        await pilot.press("enter")  # the cursor stands on Keep
        await settle(pilot)
        assert other.path.exists()
        await pilot.press("d", "d", "d")  # a key held down deletes nothing
        await settle(pilot)
        assert other.path.exists()
        await pilot.press("up", "down", "y")
        await settle(pilot, lambda: len(table(app).rows) == 1)
        assert not other.path.exists()
        await pilot.press("e")
        assert isinstance(app.screen, ExportDialog)
        await pilot.press("escape", "x", "enter")
        await settle(pilot, lambda: contains(app, "finished"))
        assert app.current_mode == "bench"
        assert app.session.run == chosen


@sizes
async def test_a_running_run_is_not_deleted(tmp_path: Path, size: tuple[int, int]) -> None:
    run, _ = live_run(tmp_path)
    app, _ = make_app(tmp_path)
    with run.lock():
        async with app.run_test(size=size) as pilot:
            await open_runs(pilot)
            assert contains(app, "running")
            await pilot.press("d")
            assert not isinstance(app.screen, AskDialog)
    assert run.path.exists()


async def test_figures_of_a_run_s_cases_end_below_each_other(tmp_path: Path) -> None:
    run = RunStore(tmp_path).create("bench")
    plan = journals.experiment(("tiny", "small", "medium"))
    writer = journals.Writer(run)
    writer.begin(plan)
    for index, mean in enumerate((4.0, 40.0, 4000.0)):
        writer.case(index, plan.cases()[index], mean)
    writer.end()
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await open_runs(pilot)
        await settle(pilot, lambda: text_of(app).count(" ms ") >= 3)
        lines = [line for line in text_of(app).splitlines() if " ± " in line]
        assert len({line.index(" ms") for line in lines}) == 1
        assert len(lines) == 3


@pytest.mark.parametrize("width", [60, 200])
async def test_what_is_said_of_a_case_is_left_out_where_there_is_no_room(
    tmp_path: Path, width: int
) -> None:
    run = RunStore(tmp_path).create("bench")
    plan = journals.experiment(("small",))
    writer = journals.Writer(run)
    writer.begin(plan)
    writer.case(0, plan.cases()[0], 40.0)
    writer.end()
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(width, 30)) as pilot:
        await open_runs(pilot)
        await settle(pilot, lambda: contains(app, " ± "))
        (line,) = [line for line in text_of(app).splitlines() if " ± " in line]
        said = line.partition(" ms")[2].strip()
        known = case_line(replay(run.journal).cases[0]).said
        assert said == known if width == 200 else said in ("", known.partition(":")[0])


async def test_what_all_cases_share_is_said_once_and_no_label_is_cut(tmp_path: Path) -> None:
    run = RunStore(tmp_path).create("bench")
    with zipfile.ZipFile(FIXTURES / "attention-kernels-h200.llmprof") as archive:
        run.journal.write_bytes(archive.read("journal.jsonl"))
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await open_runs(pilot)
        await settle(pilot, lambda: contains(app, "d=64 · ctx 1024 "))
        assert contains(app, "attention · forward-backward · bf16")
        lines = [line for line in text_of(app).splitlines() if " ± " in line]
        assert lines
        assert not any("…" in line.partition(" ± ")[0] for line in lines)


async def test_the_cursor_goes_to_the_run_that_is_watched(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    runs = [journals.finished(store, (name,)) for name in ("tiny", "small", "medium")]
    app, _ = make_app(tmp_path, watch=runs[0])
    async with app.run_test(size=(120, 30)) as pilot:
        await open_runs(pilot)
        await settle(pilot, lambda: table(app).current == runs[0].id)
        app.watch_run(runs[1])
        await settle(pilot, lambda: table(app).current == runs[1].id)
        before = table(app).shown_keys.index(runs[1].id)
        await pilot.press("down" if before < 2 else "up")  # and stays where it is put
        app.show_newest()
        await settle(pilot, lambda: table(app).current != runs[1].id)


@pytest.mark.parametrize("size", [(80, 24), (120, 30), (200, 50)], ids=lambda s: f"{s[0]}x{s[1]}")
async def test_the_run_under_the_cursor_is_shown(tmp_path: Path, size: tuple[int, int]) -> None:
    store = RunStore(tmp_path)
    journals.finished(store, ("tiny", "medium"))
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await open_runs(pilot)
        await settle(pilot, lambda: contains(app, "train · ctx 128 · fp32"))
        for said in ("oom", "llmprof bench", "enter Open", "±"):
            assert contains(app, said), said


@pytest.mark.parametrize("size", [(80, 24), (120, 30), (200, 50)], ids=lambda s: f"{s[0]}x{s[1]}")
async def test_a_finished_run_shows_its_verdict_and_what_to_try(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    run = RunStore(tmp_path).create("bench")
    with zipfile.ZipFile(FIXTURES / "end-to-end-h100.llmprof") as archive:
        run.journal.write_bytes(archive.read("journal.jsonl"))
    first, *tried = outlook_lines(replay(run.journal))
    assert 0 < len(tried) <= 3
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await open_runs(pilot)
        await settle(pilot, lambda: contains(app, first[:60]))
        if size[1] == 50:
            for line in tried:
                assert contains(app, line[:60])
        else:
            assert contains(app, "To try") or contains(app, "more suggestion")


@pytest.mark.parametrize(
    ("size", "listed"), [((80, 24), 13), ((120, 30), 19), ((200, 50), 30)], ids=str
)
async def test_names_are_whole_and_runs_come_first(
    tmp_path: Path, size: tuple[int, int], listed: int
) -> None:
    name = "what became of the attention in bf16"
    for number in range(30):
        journals.finished(RunStore(tmp_path), ("tiny",)).rename(f"{name} {number:02}")
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await open_runs(pilot)
        await settle(pilot, lambda: len(table(app).rows) == 30)
        await settle(pilot, lambda: sum(name in line for line in text_of(app).splitlines()) > 5)
        lines = [line for line in text_of(app).splitlines() if re.search(rf"{name} \d\d ", line)]
        assert len(lines) >= listed
        assert contains(app, "llmprof bench")  # the run under the cursor has its lines too


async def test_what_a_budget_left_out_has_not_failed(tmp_path: Path) -> None:
    plan = journals.experiment(("tiny", "small"), 5)
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    writer.case(0, plan.cases()[0], 40.0)
    writer.fail(1, "skipped", "would take about 2 h here")
    writer.end()
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "1/1 cases, 1 left out"))
        await open_runs(pilot)
        await settle(pilot, lambda: contains(app, "1/1, 1 left out"))
        assert not contains(app, "failed")


async def test_r_measures_what_a_run_still_lacks(tmp_path: Path) -> None:
    plan = journals.experiment(("tiny", "small"), 20)
    run = RunStore(tmp_path).create("bench")
    writer = journals.Writer(run)
    writer.begin(plan)
    writer.case(0, plan.cases()[0], 40.0)
    writer.end("stopped")
    app, starter = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await open_runs(pilot)
        await pilot.press("r")
        await settle(pilot, lambda: len(starter.started) == 1 and app.current_mode == "bench")
    assert starter.started[0][0] == run
    assert starter.resumed == (1,)


async def test_a_run_that_lacks_nothing_is_not_resumed(tmp_path: Path) -> None:
    journals.finished(RunStore(tmp_path), ("tiny",))
    app, starter = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await open_runs(pilot)
        await settle(pilot, lambda: contains(app, "e Export"))
        assert not contains(app, "r Resume")
        await pilot.press("r")
        await settle(pilot)
    assert not starter.started


# Refused


def refuse(number: int) -> Callable[..., Any]:
    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refused


async def on_runs(pilot: Pilot[Any]) -> None:
    await pilot.press("2")
    await settle(pilot, lambda: contains(cast(LlmprofApp, pilot.app), "complete"))


@pytest.mark.parametrize(
    ("keys", "method"),
    [(("n", "a", "enter"), "write_bytes"), (("d", "y"), "rmtree"), ((), "kill")],
    ids=["rename", "delete", "stop"],
)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EPERM, errno.EROFS])
async def test_what_is_refused_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...], method: str, number: int
) -> None:
    run = journals.finished(RunStore(tmp_path))
    run.rename("before")
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30), notifications=True) as pilot:
        await on_runs(pilot)
        monkeypatch.setattr(Run, "holder", lambda _: Holder(pid=1))
        monkeypatch.setattr(lock, "has_open", lambda *_: True)
        owner = {"write_bytes": Path, "rmtree": shutil, "kill": os}[method]
        monkeypatch.setattr(owner, method, refuse(number))
        if keys:
            await pilot.press(*keys)
        else:
            app.call_later(app.stop_run, run)
        await settle(pilot, lambda: contains(app, os.strerror(number)))
        monkeypatch.undo()
        assert app.return_code is None  # it goes on
    assert run.label == "before"


@pytest.mark.parametrize("keys", [("n", "a", "enter"), ("d", "y"), ("e",), ("w",), ("space",)])
async def test_a_run_that_was_deleted_elsewhere(tmp_path: Path, keys: tuple[str, ...]) -> None:
    run = journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30), notifications=True) as pilot:
        await on_runs(pilot)
        app.ticker.index.follow(False)  # it is still listed
        shutil.rmtree(run.path)
        await pilot.press(*keys)
        await settle(pilot, lambda: contains(app, f"{run.id} was deleted"))
        assert not contains(app, "Errno")
        assert not contains(app, "No such file")
        assert table(app).rows == ()
        assert app.return_code is None  # it goes on
    assert not run.path.exists()
