"""What is asked before a run: that another is going, that it is long, that it does not fit."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec
import pytest

from llmprof.core.events import Environment
from llmprof.core.store.journal import JournalWriter
from llmprof.core.store.run import RunStore
from llmprof.tui.bench.outlook import seconds_of
from llmprof.tui.kit.ask import AskDialog
from llmprof.tui.session.choices import Choices
from llmprof.tui.session.machine import machine_here
from llmprof.tui.starts import LONG_S
from tests.builders import journals
from tests.builders.journals import live_run
from tests.tui.apps import FakeStarter, make_app
from tests.tui.frames import contains, settle


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("size", [(80, 24), (120, 30), (200, 50)], ids=lambda s: f"{s[0]}x{s[1]}")
async def test_a_run_that_is_going_is_told_and_watched_with_w(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    run, _ = live_run(tmp_path)
    app, _ = make_app(tmp_path)
    with run.lock():
        async with app.run_test(size=size) as pilot:
            await settle(pilot, lambda: contains(app, "w Watch"))
            if size[0] >= 100:
                assert contains(app, " is going: w to watch")
            if size[0] >= 200:
                assert contains(app, f"Run {run.label} is going: w to watch")
            await pilot.press("w")
            await settle(pilot, lambda: contains(app, "live") and contains(app, "1/3 cases"))
            assert app.session.run == run
            assert not contains(app, "w Watch")


async def test_a_second_run_beside_it_asks_first(tmp_path: Path) -> None:
    run, _ = live_run(tmp_path)
    app, starter = make_app(tmp_path)
    with run.lock():
        async with app.run_test(size=(120, 30)) as pilot:
            await settle(pilot)
            await pilot.press("r", "r", "r")  # a key held down decides nothing
            await settle(pilot)
            assert isinstance(app.screen, AskDialog)
            assert contains(app, "is going on this machine")
            await pilot.press("escape")
            assert not starter.started
            await pilot.press("r", "w")
            await settle(pilot, lambda: contains(app, "live"))
            assert app.session.run == run
            await pilot.press("r", "y")
            await settle(pilot, lambda: len(starter.started) == 1)


async def test_the_card_in_use_asks_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "no cards" / "0"
    folder.mkdir(parents=True)
    (folder / "information").write_text("Model: \t NVIDIA H100 80GB HBM3\n")
    users: list[str] = ["pid 4711, eva, python train.py"]
    monkeypatch.setattr("llmprof.core.monitor.others.others_on_cards", lambda: tuple(users))
    app, starter = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot)
        await pilot.press("r")
        await settle(pilot, lambda: contains(app, "pid 4711, eva"))
        await pilot.press("escape")
        users.clear()
        await pilot.press("r")
        await settle(pilot, lambda: len(starter.started) == 1)


async def test_what_cannot_fit_is_asked_about_and_can_be_left_out(tmp_path: Path) -> None:
    app, starter = make_app(tmp_path, choices=Choices(models=("small", "10B", "medium")))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "r runs 3 cases, about"))
        await pilot.press("r")
        await settle(pilot, lambda: contains(app, "1 case does not fit: 10B"))
        assert contains(app, "32.0 GiB")
        assert contains(app, "Run 3 cases, about")
        await pilot.press("enter")  # the cursor stands on nothing
        await settle(pilot)
        assert not starter.started
        await pilot.press("r", "f")
        await settle(pilot, lambda: len(starter.started) == 1)
    assert [model.name for model in starter.started[0][1].models] == ["small", "medium"]
    assert "small,medium" in starter.started[0][2]


async def test_hours_are_asked_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmprof.tui.session.machine.CPU_TFLOPS", 0.001)
    app, starter = make_app(tmp_path, choices=Choices(models=("tiny", "small")))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "r runs 2 cases, about"))
        await pilot.press("r")
        await settle(pilot, lambda: contains(app, "It takes about"))
        await pilot.press("y")
        await settle(pilot, lambda: len(starter.started) == 1)


async def test_a_short_run_that_fits_simply_starts(tmp_path: Path) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "r runs 1 case, about"))
        await pilot.press("r")
        await settle(pilot, lambda: len(starter.started) == 1)


def test_the_pace_is_that_of_an_earlier_run_here(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    assumed = machine_here(store)
    assert assumed.matmul_tflops is not None
    run = store.create("bench")
    writer = journals.Writer(run)
    plan = journals.experiment()
    seen = Environment(
        t=1, device="cpu", device_name="a CPU", host=socket.gethostname(), matmul_tflops=0.5
    )
    writer.begin(plan)  # on an H100 of another host
    assert machine_here(store).matmul_tflops == assumed.matmul_tflops
    other = store.create("bench")
    JournalWriter(other.journal).append(seen)
    assert machine_here(store).matmul_tflops == seen.matmul_tflops
    (_, slow), (_, quick) = seconds_of(plan, seen), seconds_of(plan, assumed)
    assert slow is not None
    assert quick is not None
    assert slow > quick
    assert LONG_S >= 60


async def test_a_demo_never_asks(tmp_path: Path) -> None:
    run, _ = live_run(tmp_path)
    app, starter = make_app(tmp_path, demo=True)
    assert isinstance(starter, FakeStarter)
    with run.lock():
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot)
            await pilot.press("r")
            await settle(pilot, lambda: len(starter.started) == 1)


def test_what_a_budget_leaves_out_is_not_counted() -> None:
    plan = journals.experiment(("tiny", "small", "medium"))
    slow = Environment(t=1, device="cpu", device_name="a CPU", matmul_tflops=0.01)
    assert seconds_of(plan, slow)[0] == 3
    count, seconds = seconds_of(msgspec.structs.replace(plan, cpu_budget_s=1.0), slow)
    assert count == 1
    assert seconds is not None
