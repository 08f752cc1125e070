from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path

import pytest

from llmprof.core.spec.axes import Mode
from llmprof.core.store.files import exit_file
from llmprof.core.store.journal import Follower
from llmprof.core.store.run import RunStore
from llmprof.tui.session.feed import Feed
from llmprof.tui.session.run_index import RunIndex, headline
from llmprof.tui.session.screen_session import ScreenSession
from llmprof.tui.session.starter import CannotStart
from tests.builders import journals, planted
from tests.builders.tracked_rows import USUAL, write_loop
from tests.tui.apps import FakeStarter, polled
from tests.waiting import wait_for

# Feed


def test_feed_follows_a_growing_journal(tmp_path: Path) -> None:
    run = RunStore(tmp_path).create("bench")
    feed = Feed(run.journal, poll_s=0.01)
    try:
        assert feed.latest.loading
        wait_for(lambda: not feed.latest.loading)
        assert feed.latest.view.events == 0
        writer = journals.Writer(run)
        plan = journals.experiment(("small",))
        writer.begin(plan)
        wait_for(lambda: feed.latest.view.environment is not None)
        before = feed.latest
        writer.case(0, plan.cases()[0])
        wait_for(lambda: feed.latest.view.cases[0].status == "ok")
        assert feed.latest.version > before.version
        assert before.view.cases[0].status == "pending"
        same, reads = feed.latest, feed.reads
        wait_for(lambda: feed.reads >= reads + 3)
        assert feed.latest is same
    finally:
        feed.close()
    assert not feed.alive


def test_what_the_feed_raises_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise OSError("disk on fire")

    monkeypatch.setattr(Follower, "poll", broken)
    feed = Feed(tmp_path / "journal.jsonl", poll_s=0.01)
    wait_for(lambda: feed.latest.error is not None)
    assert "disk on fire" in str(feed.latest.error)
    feed.close()
    assert not feed.alive


def test_closing_ends_the_thread(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "none")
    feed.close()
    assert not any(t.name == "llmprof-feed" for t in threading.enumerate())


# Session


def make(tmp_path: Path) -> tuple[ScreenSession, FakeStarter]:
    starter = FakeStarter()
    return ScreenSession(RunStore(tmp_path), starter), starter


def test_a_started_run_is_watched(tmp_path: Path) -> None:
    session, starter = make(tmp_path)
    plan = journals.experiment(("small",))
    run = session.start(plan, ("llmprof", "run"))
    assert session.run is run
    assert starter.started == [(run, plan, ("llmprof", "run"))]
    wait_for(lambda: polled(session).environment is not None)
    session.close()
    assert starter.dismissed


def test_pausing_holds_the_picture_and_not_the_run(tmp_path: Path) -> None:
    session, starter = make(tmp_path)
    plan = journals.experiment(("small",))
    session.start(plan, ())
    wait_for(lambda: polled(session).environment is not None)
    session.toggle_pause()
    held = session.snapshot
    starter.writers[0].case(0, plan.cases()[0])
    feed = session._feed
    assert feed is not None
    wait_for(lambda: feed.latest.view.cases_done == 1)
    session.poll()
    assert session.snapshot is held
    session.toggle_pause()
    wait_for(lambda: polled(session).cases_done == 1)
    session.close()


def test_one_run_at_a_time(tmp_path: Path) -> None:
    session, starter = make(tmp_path)
    run = session.start(journals.experiment(), ())
    with run.lock():
        assert session.going() is run
        with pytest.raises(CannotStart, match="still running"):
            session.start(journals.experiment(), ())
    assert len(starter.started) == 1
    session.close()


def test_a_run_that_could_not_be_started_leaves_nothing(tmp_path: Path) -> None:
    session, starter = make(tmp_path)

    def fail(*_: object) -> None:
        raise CannotStart("torch is not installed")

    starter.start = fail  # type: ignore[method-assign, assignment]
    with pytest.raises(CannotStart, match="torch"):
        session.start(journals.experiment(), ())
    assert RunStore(tmp_path).list() == []
    session.close()


def test_a_store_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    session = ScreenSession(RunStore(tmp_path / "file" / "runs"), FakeStarter())
    with pytest.raises(CannotStart, match="cannot create a run"):
        session.start(journals.experiment(), ())
    session.close()


def test_an_engine_that_died_at_once_is_told(tmp_path: Path) -> None:
    now = [0.0]
    starter = FakeStarter()
    session = ScreenSession(RunStore(tmp_path), starter, clock=lambda: now[0])
    run = session.start(journals.experiment(), ())
    starter.code = 3
    now[0] = 60.0
    assert session.poll()
    assert "exit code 3" in session.problem
    assert str(run.log) in session.problem
    assert session.going() is None
    session.close()


def test_watching_another_run_ends_the_first_feed(tmp_path: Path) -> None:
    session, _ = make(tmp_path)
    store = RunStore(tmp_path)
    session.watch(journals.finished(store))
    session.watch(journals.finished(store))
    wait_for(lambda: sum(t.name == "llmprof-feed" for t in threading.enumerate()) == 1)
    session.close()
    assert not any(t.name == "llmprof-feed" for t in threading.enumerate())


def test_what_was_read_of_a_run_goes_when_others_are_watched(tmp_path: Path) -> None:
    session, _ = make(tmp_path)
    store = RunStore(tmp_path)
    session.watch(journals.finished(store))
    wait_for(lambda: polled(session).outcome == "complete")
    seen = weakref.ref(session._feed), weakref.ref(session.snapshot.view)
    session.watch(journals.finished(store))
    wait_for(lambda: not session._closing[0].alive)
    session.watch(None)
    gc.collect()
    assert [one() for one in seen] == [None, None]
    session.close()


# Index


def test_index_lists_and_follows_the_folder(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = journals.finished(store)
    index = RunIndex(store, period_s=0.05)
    try:
        index.look_again()
        wait_for(lambda: not index._wake.is_set())
        assert newest(index, "id") is None  # nobody looks
        index.follow(True)
        wait_for(lambda: index.latest is not None and len(index.latest) == 1)
        assert index.latest is not None
        listed = index.latest[0]
        assert (listed.summary.status, listed.summary.ok, listed.summary.cases) == (
            "complete",
            1,
            2,
        )
        figures = listed.figures
        assert "small train" in figures.headline
        assert figures.headline.endswith(figures.span)  # one case: its name, its figure alone
        assert figures.span.endswith(" ms")
        assert "±" in figures.cases[0].figure
        assert figures.cases[1].figure == "oom"
        other = journals.finished(store)
        index.look_again()
        wait_for(lambda: len(index.latest or ()) == 2)
        run.delete()
        wait_for(lambda: [r.run.id for r in index.latest or ()] == [other.id])
    finally:
        index.close()
    assert not index.alive


def test_headline_of_nothing_is_empty(tmp_path: Path) -> None:
    from llmprof.core.state.view import RunView

    assert headline(RunView()) == ("", "")


def test_a_headline_names_both_ends_alike() -> None:
    def measured(*modes: Mode) -> tuple[str, str]:
        cases = [planted.case(mode=mode, batch_size=at + 1) for at, mode in enumerate(modes)]
        events = [
            event
            for at, case in enumerate(cases)
            for event in planted.run(at, case, {"forward": [1500.0 * (at + 1)] * 10})
        ]
        return headline(planted.view(cases, events))

    name = planted.SHAPE.name
    assert measured("forward")[0] == f"{name} forward 1,500 ms"
    assert measured("forward", "train") == (
        f"{name} forward 1,500 ms … {name} train 3,000 ms", "1,500 … 3,000 ms",
    )  # fmt: skip
    assert measured("forward", "forward")[0] == f"{name} forward 1,500 … 3,000 ms"


def test_views_of_cases_are_worked_out_off_the_loop(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path), ("small",))
    feed = Feed(run.journal, poll_s=0.01)
    wait_for(lambda: feed.latest.view.outcome is not None)
    assert "total" in vars(feed.latest.view.cases[0])
    feed.close()


def newest(index: RunIndex, field: str) -> object:
    listed = index.latest
    return getattr(listed[0].summary, field) if listed else None


def test_index_reads_on_where_a_growing_run_was_left(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = store.create("bench")
    writer = journals.Writer(run)
    plan = journals.experiment(("small", "medium"))
    writer.begin(plan)
    index = RunIndex(store, period_s=0.05)
    try:
        index.follow(True)
        with run.lock():
            writer.case(0, plan.cases()[0])
            wait_for(lambda: newest(index, "ok") == 1)
            assert newest(index, "status") == "running"
            assert list(index._growing) == [run.id]
            writer.case(1, plan.cases()[1])
            wait_for(lambda: newest(index, "ok") == 2)
        writer.end()
        wait_for(lambda: newest(index, "status") == "complete")
        held = index._settled[run.id][1].view
        assert sum(len(case.measured) for case in held.cases) == 0
        index.follow(False)
        wait_for(lambda: not index._growing)
    finally:
        index.close()


def test_index_sees_how_a_rank_and_a_process_ended_beside_the_first_journal(
    tmp_path: Path,
) -> None:
    """As after a bare `raise SystemExit(3)`, whose code comes when all journals are written."""
    run = write_loop(tmp_path, ranks=(USUAL, USUAL), done=False)
    index = RunIndex(RunStore(tmp_path))
    try:
        with run.lock():
            index._scan()
            assert newest(index, "status") == "running"
            (run.path / exit_file(1, 0)).write_bytes(b"")
            index._scan()
        (run.path / exit_file(0, 0)).write_bytes(b"\x00")
        index._scan()
        assert newest(index, "status") == "interrupted"  # of one rank it is not known
        (run.path / exit_file(1, 0)).write_bytes(b"\x03")
        index._scan()
        assert newest(index, "status") == "failed"
    finally:
        index.close()


def test_a_run_that_cannot_be_read_is_listed_and_leaves_no_file_open(tmp_path: Path) -> None:
    run = write_loop(tmp_path, ranks=(USUAL,))
    (run.path / "rank-1.jsonl").mkdir()
    index = RunIndex(RunStore(tmp_path))
    try:
        index._scan()
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(3):
            index._scan()
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        assert newest(index, "id") == run.id
        assert newest(index, "status") == "empty"
    finally:
        index.close()


def test_of_a_run_that_is_killed_nothing_stays_open(tmp_path: Path) -> None:
    run = write_loop(tmp_path, ranks=(USUAL,), done=False)
    index = RunIndex(RunStore(tmp_path))
    try:
        with run.lock():
            index._scan()
            assert list(index._growing) == [run.id]
        index._scan()
        assert not index._growing
    finally:
        index.close()
