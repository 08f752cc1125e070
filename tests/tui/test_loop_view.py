"""The Loop view: what it shows of a training, alive and gone, alone and of several ranks."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from llmprof.core import events as ev
from llmprof.core.store import lock
from llmprof.core.store.files import samples_file
from llmprof.core.store.journal import JournalWriter
from llmprof.core.store.run import Run
from llmprof.core.system.boot import boot_id
from llmprof.tui.bench.view import BenchView
from llmprof.tui.loop.view import LoopView
from tests.builders.tracked_rows import MS, SECOND, USUAL, write_loop
from tests.tui.apps import make_app, shows, sizes
from tests.tui.frames import contains, settle, text_of

SLOW = (("input", 2.0), ("", 25.0), ("backward", 9.0), ("", 0.5), ("optimizer", 3.0))
WAITS = (("input", 2.0), ("", 5.0), ("backward", 29.0), ("", 0.5), ("optimizer", 3.0))


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def add_samples(run: Run, start_ns: int) -> None:
    journal = JournalWriter(run.path / samples_file(0, 0))
    journal.append(ev.Segment(t=start_ns, boot_id=boot_id(), wall_ns=start_ns, pid=1,
                              version="0"))  # fmt: skip
    for at in range(3):
        host = ev.HostSample(cpu_percent=20.0 + at, memory_used_bytes=2**34,
                             memory_total_bytes=2**36)  # fmt: skip
        journal.append(ev.DeviceSample(t=start_ns + at * SECOND, host=host))
    journal.close()


async def test_the_bench_view_counts_no_cases_of_a_loop(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path, watch=write_loop(tmp_path, 20))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "a training loop: the Loop view shows it"))
        assert not contains(app, " cases")


@pytest.mark.parametrize("no_color", [True, False])
async def test_without_colours_the_parts_have_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_color: bool
) -> None:
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    own = (("forward", 10.0), ("backward", 25.0), ("", 1.0), ("clip", 5.0), ("optimizer", 5.0))
    run = write_loop(tmp_path, 200, (own,))
    app, _ = make_app(tmp_path, watch=run, view="loop")
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "step 200"))
        text = text_of(app)
        for run_of_letters in ("ffff", "bbbb", "1111"):
            assert (run_of_letters in text) == no_color
        assert ("b backward" in text) == no_color
        assert "before the optimizer" in text  # whole


@sizes
async def test_a_loop_that_has_ended(tmp_path: Path, size: tuple[int, int]) -> None:
    run = write_loop(tmp_path, 200)
    add_samples(run, SECOND)
    app, _ = make_app(tmp_path, watch=run, view="loop")
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "step 200"))
        text = text_of(app)
        for words in ("my-run", "50/s", "complete", "input wait", "backward", "Host", "loss"):
            assert words in text, words
        assert "Ranks" not in text
        view = app.base_view
        assert isinstance(view, LoopView)
        before = text
        await pilot.press("z", "z")
        await settle(pilot, lambda: text_of(app) != before)
        await pilot.press("]", "[", "space", "space", "z", "z")
        await pilot.press("1")
        await settle(pilot, lambda: isinstance(app.base_view, BenchView))
        await pilot.press("6")
        await settle(pilot, lambda: shows(app, "loop"))
        await pilot.press("q")  # nothing is asked about
        await settle(pilot, lambda: not app.is_running)
    assert app.return_code == 0


async def test_a_loop_that_goes_on_says_in_which_part_it_is(tmp_path: Path) -> None:
    now = time.monotonic_ns()
    run = write_loop(tmp_path, 100, start_ns=now - 4 * SECOND, done=False)
    held = lock.hold_as_loop(run.lock_file)
    journal = JournalWriter(run.journal)
    beat = ev.LoopBeat(t=time.monotonic_ns(), part="backward", since_ns=now - 1500 * MS, index=100)
    journal.append(beat)
    app, _ = make_app(tmp_path, watch=run, view="loop")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "in backward"))
        assert contains(app, "live")
        journal.append(msgspec.structs.replace(beat, t=time.monotonic_ns(), epoch=2))
        await settle(pilot, lambda: contains(app, "epoch 3"))
        held.close()  # as the kernel does for a process that was killed
        await settle(pilot, lambda: contains(app, "the training process is gone"))
        assert contains(app, "interrupted")
    journal.close()


async def test_stop_and_quit_leave_a_training_alone(tmp_path: Path) -> None:
    run = write_loop(tmp_path, 50, done=False)
    held = lock.hold_as_loop(run.lock_file)  # by this very process
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30), notifications=True) as pilot:
        await settle(pilot, lambda: contains(app, "a training loop"))
        app.stop_run()
        await settle(pilot, lambda: contains(app, "cannot stop it"))
        await pilot.press("q")
        await settle(pilot, lambda: not app.is_running)
    held.close()


@sizes
async def test_ranks_and_the_straggler(tmp_path: Path, size: tuple[int, int]) -> None:
    run = write_loop(tmp_path, 60, (WAITS, SLOW))
    app, _ = make_app(tmp_path, watch=run, view="loop")
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "Ranks"))
        assert contains(app, "rank 1 is 20 ms a step slower in forward + loss")
        assert contains(app, "my-run rank 0")
        await pilot.press("tab", "down")
        await settle(pilot, lambda: contains(app, "my-run rank 1"))


async def test_no_loop_says_how_to_have_one(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path, view="loop")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "no training loop is watched"))


async def test_a_loop_opens_from_the_list_of_runs(tmp_path: Path) -> None:
    write_loop(tmp_path, 30, (USUAL,))
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.press("2")
        await settle(pilot, lambda: contains(app, "my-run"))
        await pilot.press("enter")
        await settle(pilot, lambda: shows(app, "loop") and contains(app, "step 30"))


async def test_what_holds_it_up_is_named(tmp_path: Path) -> None:
    waiting = (("input", 12.0), *USUAL[1:])
    app, _ = make_app(tmp_path, watch=write_loop(tmp_path, 60, (waiting,)), view="loop")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "input-bound"))
