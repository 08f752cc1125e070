"""The Loop view: what it shows of a training, alive and gone, alone and of several ranks."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from llmprof.core import events as ev
from llmprof.core.report.loops import loop_table
from llmprof.core.state.loop_columns import LoopRows
from llmprof.core.state.loops import Loops
from llmprof.core.store import lock
from llmprof.core.store.files import loop_file, samples_file
from llmprof.core.store.journal import JournalWriter, replay
from llmprof.core.store.pack import unpack
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.boot import boot_id, host_name
from llmprof.core.track.batches import Batches
from llmprof.tui.bench.view import BenchView
from llmprof.tui.loop.view import LoopView
from llmprof.tui.loop.window import Span, part_columns
from tests.builders.tracked_rows import MS, SECOND, USUAL, row, rows, started, write_loop
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


@contextmanager
def going_loop(root: Path) -> Iterator[Run]:
    """A loop of twenty steps whose process, this one, holds it."""
    now = time.monotonic_ns()
    run = write_loop(root, 20, start_ns=now - SECOND, done=False)
    held = lock.hold_as_loop(run.lock_file)
    yield run
    held.close()


async def test_the_bench_view_counts_no_cases_of_a_loop(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path, watch=write_loop(tmp_path, 20))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "a training loop: press 6 for the Loop view"))
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
        (whole,) = [line.split() for line in text.splitlines() if re.search(r"\bstep +4", line)]
        assert whole[-2:] == ["step", "46.00"]


async def test_parts_that_have_no_line_are_one_with_the_others(tmp_path: Path) -> None:
    own = [(f"phase {at}", float(at)) for at in range(1, 21)]
    run = write_loop(tmp_path, 200, (own,))
    app, _ = make_app(tmp_path, watch=run, view="loop")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "step 200"))
        text = text_of(app)
        shown = [float(ms) for ms in re.findall(r"phase \d+ +(\d+\.\d\d)", text)]
        ((count, rest),) = re.findall(r"(\d+) other parts +(\d+\.\d\d)", text)
        assert shown
        assert len(shown) + int(count) == 20
        assert min(shown) > 20 - len(shown)  # the longest ones
        assert sum(shown) + float(rest) == 210
        assert re.search(r"step +210\.00", text)


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


async def test_a_training_that_begins_is_shown_where_one_is_waited_for(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path, view="loop")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot, lambda: contains(app, "the next one that begins is shown here"))
        app.session.look_around()
        with going_loop(tmp_path):
            app.session.look_around()
            await settle(pilot, lambda: contains(app, "step 20") and contains(app, "live"))
            assert not contains(app, "has begun")


@sizes
async def test_a_training_that_begins_beside_is_told_and_a_key_shows_it(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot, lambda: app.frame_stands)
        app.session.look_around()
        with going_loop(tmp_path):
            app.session.look_around()
            await settle(pilot, lambda: contains(app, "Training my-run has begun"))
            assert contains(app, "w shows it")
            await pilot.press("escape", "w")
            await settle(pilot, lambda: shows(app, "loop") and contains(app, "step 20"))
            await pilot.press("1")
            await settle(pilot, lambda: contains(app, "a training loop"))
            assert not contains(app, "x Stop")  # it is not ours to end


async def test_a_training_that_follows_one_that_is_over_is_offered(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path, watch=write_loop(tmp_path, 60), view="loop")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "step 60"))
        assert not contains(app, "w Watch")
        with going_loop(tmp_path):
            app.session.look_around()
            await settle(pilot, lambda: contains(app, "my-run goes on: w shows it"))
            assert contains(app, "w Watch")
            await pilot.press("w")
            await settle(pilot, lambda: contains(app, "step 20"))
            await settle(pilot, lambda: not contains(app, "w Watch"))


async def test_what_ended_a_training_is_read_in_a_narrow_window(tmp_path: Path) -> None:
    run = write_loop(tmp_path, 60, done=False)
    label = b'"label":"my-run"'  # a bar of how far it came would take the room
    run.journal.write_bytes(run.journal.read_bytes().replace(label, label + b',"total_steps":400'))
    journal = JournalWriter(run.journal)
    error = "ValueError: Expected input batch_size (512) to match target batch_size (256)."
    journal.append(ev.LoopDone(t=9 * SECOND, outcome="failed", part="after", error=error))
    journal.close()
    app, _ = make_app(tmp_path, watch=run, view="loop")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "failed after the optimizer"))
        assert contains(app, "step 60 of 400")
        assert contains(app, error[:78])


async def test_the_rank_that_failed_first_is_named_beside_one_that_followed(tmp_path: Path) -> None:
    run = write_loop(tmp_path, 60, (USUAL, USUAL), done=False)
    for rank, at, error in (
        (0, 9, "RuntimeError: Connection closed by peer"),
        (1, 8, "ValueError: no"),
    ):
        journal = JournalWriter(run.path / loop_file(rank, 0))
        journal.append(ev.LoopDone(t=at * SECOND, rank=rank, outcome="failed", error=error))
        journal.close()
    app, _ = make_app(tmp_path, watch=run, view="loop")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "rank 1 failed first: ValueError: no"))
    table = loop_table(replay(run.journal))
    assert table is not None
    assert "Rank 1 failed first." in table.notes


def silent_rank(run: Run, pid: int) -> None:
    """A second rank, of some process of this machine, that has said nothing for four seconds."""
    moment = time.monotonic_ns() - 4 * SECOND
    said = msgspec.structs.replace(started(run, rank=1, world=2), t=moment, pid=pid,
                                   node=host_name())  # fmt: skip
    journal = JournalWriter(run.path / loop_file(1, 0))
    journal.append(ev.Segment(t=moment, boot_id=boot_id(), wall_ns=moment, pid=1, version="0"))
    journal.append(said)
    journal.close()


@pytest.fixture
def waiting() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for input."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


async def test_a_suspended_training_is_told_from_one_that_is_silent(
    tmp_path: Path, waiting: subprocess.Popen[bytes]
) -> None:
    with going_loop(tmp_path) as run:
        journal = JournalWriter(run.journal)
        said = started(run, restart=1)
        moment = time.monotonic_ns() - 4 * SECOND
        node = host_name()
        journal.append(msgspec.structs.replace(said, t=moment, pid=waiting.pid, node=node))
        journal.close()
        app, _ = make_app(tmp_path, watch=run, view="loop")
        async with app.run_test(size=(80, 24)) as pilot:
            waiting.send_signal(signal.SIGSTOP)
            await settle(pilot, lambda: contains(app, "suspended "))
            assert contains(app, f"until kill -CONT {waiting.pid}")
            waiting.send_signal(signal.SIGCONT)
            await settle(pilot, lambda: contains(app, "no sign of life "))


def test_a_stall_leaves_the_axis_to_all_other_steps() -> None:
    loops = Loops()
    loops.apply(ev.LoopStarted(t=SECOND, run_id="r", label="r"))
    stalled = (*USUAL[:4], ("optimizer", 37_000.0))
    before = rows(500)
    stall = row(500, before[-1].end_ns, stalled)
    after = rows(500, stall.end_ns, first=501)
    for event in Batches(0, 0).events([*before, stall, *after], last=True):
        loops.apply(event)
    (loop,) = loops.view()
    found = part_columns(loop, Span.up_to(after[-1].end_ns, 60 * SECOND, 75))
    assert 20 <= found.typical <= 40
    assert max(map(sum, found.columns)) > 30_000  # it stands in the columns that it took


async def test_a_suspended_rank_is_named_whichever_is_in_sight(
    tmp_path: Path, waiting: subprocess.Popen[bytes]
) -> None:
    waiting.send_signal(signal.SIGSTOP)
    with going_loop(tmp_path) as run:
        silent_rank(run, waiting.pid)
        app, _ = make_app(tmp_path, watch=run, view="loop")
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot, lambda: contains(app, "rank 1: suspended "))
            assert contains(app, "my-run rank 0")
            assert text_of(app).count("suspended ") == 2  # and in its row


async def test_the_rank_that_is_gone_is_named_before_what_others_died_of(tmp_path: Path) -> None:
    run = write_loop(tmp_path, 60, (USUAL, USUAL), done=False)
    journal = JournalWriter(run.path / loop_file(0, 0))
    error = f"RuntimeError: [/{'long/' * 20}pair.cc:537] Connection reset by peer"
    journal.append(ev.LoopDone(t=9 * SECOND, outcome="failed", part="backward", error=error))
    journal.close()
    app, _ = make_app(tmp_path, watch=run, view="loop")
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "rank 1: gone: killed, or it crashed"))
        assert contains(app, "RuntimeError: [/long/long/")


async def test_a_rank_whose_process_is_gone_is_named_while_others_wait_for_it(
    tmp_path: Path, waiting: subprocess.Popen[bytes]
) -> None:
    waiting.kill()  # and nobody has asked how it ended
    with going_loop(tmp_path) as run:
        silent_rank(run, waiting.pid)
        app, _ = make_app(tmp_path, watch=run, view="loop")
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot, lambda: contains(app, "rank 1: gone: killed, or it crashed"))
            assert contains(app, "my-run rank 0")


async def test_a_training_of_another_machine_is_not_said_to_be_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llmprof.core.system.boot.this_boot", lambda _: False)
    with going_loop(tmp_path) as run:
        app, _ = make_app(tmp_path, watch=run, view="loop")
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot, lambda: contains(app, "step 20") and contains(app, "live"))
            assert app.session.now_ns() is None
            assert not contains(app, "gone")


@pytest.mark.parametrize("width", [80, 200])
async def test_lines_of_the_device_are_told_apart_without_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    run = RunStore(tmp_path).create("recorded")
    unpack(Path(__file__).parents[1] / "fixtures" / "own-loop-cpu.llmprof", run)
    app, _ = make_app(tmp_path, watch=run, view="loop")
    async with app.run_test(size=(width, 40)) as pilot:
        await settle(pilot, lambda: contains(app, "own-loop"))
        await settle(pilot, lambda: re.search(r"CPU +\d+ %", text_of(app)) is not None)
        assert re.search(r"memory +\d+ %", text_of(app))


def test_parts_are_put_into_columns_without_lists_of_all_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After days there are hundreds of thousands, looked at several times a second."""
    (loop,) = replay(write_loop(tmp_path, 50).journal).loops
    for name in ("count", "start_ns", "wall_ms", "part_ms"):
        monkeypatch.delattr(LoopRows, name)
    end = loop.rows.end_ns
    assert end is not None
    found = part_columns(loop, Span.up_to(end, end - loop.first_t, 10))
    assert found.names == ("input", "forward", "backward", "before", "optimizer", "after")
    assert [round(sum(column), 1) for column in found.columns[1:9]] == [20.0] * 8
