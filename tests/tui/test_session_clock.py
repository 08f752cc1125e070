"""Elapsed time: the wall's while a run lives on this boot, the journal's own otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core import events as ev
from llmprof.core.store.journal import JournalWriter
from llmprof.core.store.run import Run, RunStore
from llmprof.core.system.boot import boot_id, this_boot
from llmprof.tui.app import LlmprofApp
from llmprof.tui.bench.progress import progress
from llmprof.tui.bench.view import BenchView
from llmprof.tui.session.screen_session import ScreenSession
from tests.builders import journals
from tests.tui.apps import FakeStarter, make_app, polled
from tests.tui.frames import contains, settle, text_of
from tests.waiting import wait_for

START_S = 1000


def starting(store: RunStore, boot: str, outcome: ev.Outcome | None = None) -> Run:
    """A run whose first worker is being started, as it looks for ten seconds on a card machine."""
    run = store.create("bench")
    plan, t = journals.experiment(("small",)), START_S * 10**9
    journal = JournalWriter(run.journal)
    journal.append(ev.Segment(t=t, boot_id=boot, wall_ns=1, pid=1, version="0"))
    journal.append(
        ev.RunStarted(t=t, run_id=run.id, experiment=plan, cases=plan.cases(), command=())
    )
    if outcome is not None:
        journal.append(ev.RunDone(t=t + 3 * 10**9, outcome=outcome))
    journal.close()
    return run


def test_a_boot_that_is_not_known_is_not_this_one() -> None:
    assert not this_boot("")
    assert not this_boot("b")
    assert this_boot(boot_id()) == bool(boot_id())


@pytest.mark.skipif(not boot_id(), reason="this kernel tells no boot id")
@pytest.mark.parametrize(
    ("boot", "outcome", "locked", "expected"),
    [
        (boot_id(), None, True, 12.0),
        ("another", None, True, 0.0),  # replayed, or carried here while it went on
        (boot_id(), None, False, 0.0),  # its engine is gone
        (boot_id(), "complete", True, 3.0),
    ],
)
def test_whose_clock_tells_the_elapsed_time(
    tmp_path: Path, boot: str, outcome: ev.Outcome | None, locked: bool, expected: float
) -> None:
    run = starting(RunStore(tmp_path), boot, outcome)
    session = ScreenSession(RunStore(tmp_path), FakeStarter(), clock=lambda: START_S + 12.0)
    lock = run.lock()
    if locked:
        lock.__enter__()
    try:
        session.watch(run)
        wait_for(lambda: polled(session).outcome == outcome and not session.loading)
        view = polled(session)
        assert progress(view, session.now_ns()).elapsed_s == expected
    finally:
        session.close()
        if locked:
            lock.__exit__(None, None, None)


@pytest.mark.skipif(not boot_id(), reason="this kernel tells no boot id")
async def test_the_clock_ticks_while_no_event_comes_and_not_while_paused(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = starting(store, boot_id())
    now = [START_S + 4.0]
    app, _ = make_app(tmp_path, watch=run)
    app.session._clock = lambda: now[0]
    with run.lock():
        app.session.watch(run)
        async with app.run_test(size=(120, 30)) as pilot:
            await settle(pilot, lambda: contains(app, " 0:04 elapsed"))
            now[0] = START_S + 9.0
            await settle(pilot, lambda: contains(app, " 0:09 elapsed"))
            await pilot.press("space")
            now[0] = START_S + 30.0
            keep_time(app)
            await settle(pilot)
            assert " 0:09 elapsed" in text_of(app)
            await pilot.press("space")
            await settle(pilot, lambda: contains(app, "0:30 elapsed"))


def keep_time(app: LlmprofApp) -> None:
    """What the view does every second."""
    view = app.base_view
    assert isinstance(view, BenchView)
    view._keep_time()


async def test_a_run_of_another_boot_stands_still(tmp_path: Path) -> None:
    run = starting(RunStore(tmp_path), "another")
    app, _ = make_app(tmp_path, watch=run)
    with run.lock():
        async with app.run_test(size=(80, 24)) as pilot:
            await settle(pilot, lambda: contains(app, " 0:00 elapsed"))
            keep_time(app)
            await settle(pilot)
            assert " 0:00 elapsed" in text_of(app)
