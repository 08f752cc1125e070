from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zipfile
from functools import partial
from importlib import resources
from pathlib import Path

import pytest

from llmprof.cli import demo
from llmprof.core import events as ev
from llmprof.core.monitor.recordings import Recording
from llmprof.core.store.journal import replay
from llmprof.core.store.pack import open_view, pack
from llmprof.core.store.replay import LONGEST_S, moved, recorded
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.archive import PackError
from llmprof.tui.app import LlmprofApp
from llmprof.tui.kernels.rows import ALL, kernel_table_rows
from llmprof.tui.kit.table import RowTable
from llmprof.tui.memory.chart import MemoryChart
from llmprof.tui.session.starter import ReplayStarter
from llmprof.tui.views import VIEWS
from tests.builders import journals
from tests.tui.apps import make_app, table
from tests.tui.frames import contains, settle, text_of
from tests.tui.terminal import Terminal, environment
from tests.tui.test_kernels_view import profiled_run
from tests.waiting import PATIENCE_S, wait_for


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    run = journals.finished(RunStore(tmp_path / "source"), ("tiny", "small"))
    target = tmp_path / "demo.llmprof"
    pack(run, target)
    return target


def test_packed_and_plain_recordings_read_alike(tmp_path: Path, packed: Path) -> None:
    journal = next((tmp_path / "source").glob("*/journal.jsonl"))
    events = list(recorded(packed))
    assert events == list(recorded(journal))
    assert isinstance(events[-1], ev.RunDone)
    with journal.open("ab") as file:
        file.write(b'broken\n{"kind":"Later","t":3}\n')
    assert list(recorded(journal)) == events
    with zipfile.ZipFile(tmp_path / "no.zip", "w"):
        pass
    with pytest.raises(PackError, match="has no journal"):
        list(recorded(tmp_path / "no.zip"))


def test_all_times_of_an_event_move_together(packed: Path) -> None:
    for event in recorded(packed):
        later = moved(event, 5, "demo")
        assert later.t == event.t + 5
        if isinstance(event, ev.StepDone) and isinstance(later, ev.StepDone):
            assert later.start_ns == event.start_ns + 5
        if isinstance(later, ev.RunStarted):
            assert later.run_id == "demo"


def start(recording: Path, run: Run, speed: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "llmprof.core.store.replay", str(recording), str(run.path), speed],
        stdin=subprocess.PIPE,
        env=environment(run.path),
    )


def test_a_replay_shows_the_figures_of_the_recording(tmp_path: Path, packed: Path) -> None:
    run = RunStore(tmp_path / "runs").create("demo")
    process = start(packed, run, "1000")
    assert process.wait(PATIENCE_S) == 0
    assert process.stdin is not None
    process.stdin.close()
    view, source = replay(run.journal), replay(next((tmp_path / "source").glob("*/journal.jsonl")))
    assert view.outcome == "complete"
    assert [c.total for c in view.cases] == [c.total for c in source.cases]
    assert [c.failure for c in view.cases] == [c.failure for c in source.cases]
    assert abs(view.segments[0].t - time.monotonic_ns()) < 60e9


@pytest.mark.parametrize("how", ["signal", "pipe"])
def test_a_replay_stops_when_asked_and_with_its_owner(
    tmp_path: Path, packed: Path, how: str
) -> None:
    run = RunStore(tmp_path / "runs").create("demo")
    process = start(packed, run, "0.05")
    assert process.stdin is not None
    wait_for(lambda: run.alive() and run.journal.exists() and run.journal.stat().st_size)
    if how == "signal":
        assert run.engine_pid() == process.pid
        assert run.stop()
    process.stdin.close() if how == "pipe" else None
    assert process.wait(PATIENCE_S) == 0
    process.stdin.close()
    assert replay(run.journal).outcome == "stopped"


def test_a_starter_replays_whatever_is_asked_for(tmp_path: Path, packed: Path) -> None:
    starter = ReplayStarter(packed, 0.05)
    run = RunStore(tmp_path / "runs").create("demo")
    starter.start(run, journals.experiment(), ())
    assert starter.exit_code() is None
    starter.dismiss()
    assert starter.exit_code() == 0
    assert not run.alive()


def test_a_replay_has_the_artifacts_of_the_recording(tmp_path: Path, packed: Path) -> None:
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("artifacts/timeline-0.npz", b"strip")
        archive.writestr("artifacts/../../escaped", b"no")
    run = RunStore(tmp_path / "runs").create("demo")
    process = start(packed, run, "1000")
    assert process.wait(PATIENCE_S) == 0
    assert process.stdin is not None
    process.stdin.close()
    assert [path.name for path in run.artifacts.iterdir()] == ["timeline-0.npz"]
    assert not list(tmp_path.rglob("escaped"))


SHIPPED = sorted(Path(str(resources.files("llmprof.tui"))).glob("*.llmprof"))


def test_recordings_that_come_with_the_program_are_small_whole_and_nameless() -> None:
    assert len(SHIPPED) >= 2
    for path in SHIPPED:
        assert path.stat().st_size < 300 << 10, path
        view = open_view(path)
        assert view.outcome == "complete", path
        assert (view.damaged_lines, view.unknown_events) == (0, 0), path
        assert view.environment is not None
        assert (view.environment.device_name or "").startswith("NVIDIA"), path
        assert {segment.boot_id for segment in view.segments} <= {"recorded", ""}, path


def test_every_sample_is_named_after_a_view(tmp_path: Path) -> None:
    samples = demo.samples_in(RunStore(tmp_path))
    assert {"kernels", "memory"} <= set(samples)
    assert set(samples) <= {tab.view for tab in VIEWS}


@pytest.mark.parametrize("size", [(80, 24), (120, 30)], ids=lambda s: f"{s[0]}x{s[1]}")
async def test_the_demos_kernels_view_is_filled(tmp_path: Path, size: tuple[int, int]) -> None:
    store = RunStore(tmp_path)
    live = journals.finished(store, ("tiny",))
    samples = demo.samples_in(store)
    app, _ = make_app(tmp_path, watch=live, samples=samples, demo=True)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("3")
        table = app.screen.query_one(RowTable)
        await settle(pilot, lambda: len(table.rows) > 20 and contains(app, "launches"))
        for text in ("recorded earlier: large", "launch-bound", "GEMM", "launched by aten::"):
            assert contains(app, text), text
        await settle(pilot, lambda: app.focused is table)
        lane = next(line for line in text_of(app).splitlines() if "launches" in line)
        assert any(block in lane for block in "▁▂▃▄▅▆▇█")
        assert app.session.run is live  # the live run is still the watched one
        await pilot.press("c")
        await settle(pilot, lambda: contains(app, "recorded earlier: small"))
        await pilot.press("e")
        await settle(pilot, lambda: contains(app, f"Export {samples['kernels'].label}"))


async def test_in_a_large_window_allocations_come_before_a_larger_timeline(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    live = journals.finished(store, ("tiny",))
    app, _ = make_app(tmp_path, watch=live, samples=demo.samples_in(store), demo=True)
    async with app.run_test(size=(200, 50)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("4")
        await settle(pilot, lambda: "◆" in text_of(app))
        await settle(pilot, lambda: table(app).size.height >= 22)
        assert app.screen.query_one(MemoryChart).size.height >= 18
        assert text_of(app).count("zero_grad") >= 2  # of both steps


@pytest.mark.parametrize("size", [(80, 24), (120, 30)], ids=lambda s: f"{s[0]}x{s[1]}")
async def test_the_demos_memory_view_is_filled(tmp_path: Path, size: tuple[int, int]) -> None:
    store = RunStore(tmp_path)
    live = journals.finished(store, ("tiny",))
    app, _ = make_app(tmp_path, watch=live, samples=demo.samples_in(store), demo=True)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("4")
        await settle(pilot, lambda: contains(app, "recorded earlier: memory · small"))
        await settle(pilot, lambda: contains(app, "predicted 2.620 GiB +0.00 %"))
        await settle(pilot, lambda: "◆" in text_of(app))
        for text in ("peak 2.620 GiB in backward", "activations", "optimizer state", "backward"):
            assert contains(app, text), text
        assert app.session.run is live


def lists(app: LlmprofApp, count: int) -> bool:
    return len(table(app).rows) == count


async def test_deleted_runs_of_a_demo_vanish_from_every_view(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    live = journals.finished(store, ("tiny",))
    samples = demo.samples_in(store)
    app, _ = make_app(tmp_path, watch=live, samples=samples, demo=True)
    async with app.run_test(size=(120, 30), notifications=True) as pilot:
        await pilot.press("3")
        await settle(pilot, lambda: contains(app, "recorded earlier"))
        await pilot.press("4")
        await settle(pilot, lambda: contains(app, "recorded earlier"))
        await pilot.press("2")
        await settle(pilot, lambda: len(table(app).rows) == 3)
        app.ticker.index.follow(False)  # nothing but the keys changes the list
        await pilot.press("home", "space", "down", "space", "5")
        await settle(pilot, lambda: contains(app, "A 20") or contains(app, "not compared"))
        await pilot.press("2")
        for left in (2, 1, 0):
            await pilot.press(*"dddd", "y")
            await settle(pilot, partial(lists, app, left))
        await pilot.press(*"dddd")
        await settle(pilot)
        assert not contains(app, "No such file")
        assert len(app.screen_stack) == 1  # there is nothing to ask about
        assert store.list() == []
        for key, said in (("3", "nothing measured yet"), ("4", "nothing measured yet"),
                          ("5", "mark two runs"), ("1", "press r to measure")):  # fmt: skip
            await pilot.press(key)
            await settle(pilot, partial(contains, app, said))
            assert not any(run.id in text_of(app) for run in (live, *samples.values()))


@pytest.mark.parametrize("width", [38, 46, 60])
def test_no_two_rows_of_a_phase_look_alike(width: int) -> None:
    (recording,) = [path for path in SHIPPED if path.name == "demo-kernels.llmprof"]
    for state in open_view(recording).cases:
        names = [
            row.cells[0].shown(width) + row.cells[2].text for row in kernel_table_rows(state, ALL)
        ]
        assert len(set(names)) == len(names)
        assert bool(names) == (state.case.probe == "kernels")


async def test_a_sample_makes_way_for_what_the_watched_run_has(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    own = profiled_run(tmp_path)
    app, _ = make_app(tmp_path, watch=None, samples=demo.samples_in(store), view="kernels")
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "recorded earlier: large"))
        app.watch_run(own)
        await settle(pilot, lambda: contains(app, "tiny · train") and contains(app, "30.15 ms"))
        assert not contains(app, "recorded earlier")
        app.watch_run(journals.finished(store, ("tiny",)))
        await settle(pilot, lambda: contains(app, "recorded earlier: large"))


def test_long_silences_are_cut(tmp_path: Path) -> None:
    run = RunStore(tmp_path / "source").create("bench")
    writer = journals.Writer(run)
    writer.begin(journals.experiment())
    writer.t += 3600 * journals.SECOND
    writer.end()
    target = RunStore(tmp_path / "runs").create("demo")
    process = start(run.journal, target, "1000")
    assert process.wait(PATIENCE_S) == 0
    assert process.stdin is not None
    process.stdin.close()
    view = replay(target.journal)
    assert (view.last_t - view.segments[0].t) / 1e9 == pytest.approx(LONGEST_S)


def test_demo_plays_and_ends_without_a_trace(tmp_path: Path, packed: Path) -> None:
    env = environment(tmp_path, TMPDIR=str(tmp_path))
    arguments = ("demo", "--speed", "0.1", "--recording", str(packed))
    with Terminal(tmp_path, *arguments, env=env, size=(120, 30)) as terminal:
        terminal.wait("● replay")
        terminal.wait("Step time")
        terminal.send("q")
        assert terminal.end() == 0
        assert terminal.restored
    assert not list(tmp_path.glob("llmprof-demo-*"))


def test_the_demo_that_comes_with_the_program_has_kernels(tmp_path: Path) -> None:
    env = environment(tmp_path, TMPDIR=str(tmp_path))
    with Terminal(tmp_path, "demo", "--speed", "0.1", env=env, size=(120, 30)) as terminal:
        terminal.wait("● replay")
        terminal.send("3")
        terminal.wait("recorded earlier: large")
        terminal.wait("launches")
        terminal.send("q")
        assert terminal.end() == 0
    assert not list(tmp_path.glob("llmprof-demo-*"))


def test_demo_ends_its_replay_on_a_signal(tmp_path: Path, packed: Path) -> None:
    env = environment(tmp_path, TMPDIR=str(tmp_path))
    arguments = ("demo", "--speed", "0.05", "--recording", str(packed))
    with Terminal(tmp_path, *arguments, env=env) as terminal:
        terminal.wait("● replay")
        os.kill(terminal.process.pid, signal.SIGTERM)
        assert terminal.end() == 128 + signal.SIGTERM
    assert not list(tmp_path.glob("llmprof-demo-*"))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04broken", b'{"kind":"RunDone","t":1}\n'])
def test_a_file_that_is_no_run_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.llmprof"
    path.write_bytes(content)
    with Terminal(tmp_path, "demo", "--recording", str(path)) as terminal:
        assert terminal.end() == 2
        assert b"\x1b[?1049h" not in terminal.raw
        assert terminal.raw.count(b"\n") == 1


def test_the_packaged_recording_names_no_machine_and_has_samples_for_the_monitor() -> None:
    path = Path(str(resources.files("llmprof.tui") / "demo.llmprof"))
    with zipfile.ZipFile(path) as archive:
        text = b"".join(archive.read(name) for name in archive.namelist())
    for part in (b"/work", b"/home", b"/root", b"/opt", b"/tmp"):
        assert part not in text
    samples = [event for event in recorded(path) if isinstance(event, ev.DeviceSample)]
    assert sum(bool(sample.cards) for sample in samples) > 100
    assert Recording(path).origin[0] == "NVIDIA H100 80GB HBM3"
