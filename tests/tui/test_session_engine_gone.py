"""When an engine counts as gone, against what of its journal is in the picture."""

from __future__ import annotations

import time
from pathlib import Path

from llmprof.core.store.run import RunStore
from llmprof.tui.session.screen_session import ALIVE_S, ScreenSession
from tests.tui import journals
from tests.tui.apps import FakeStarter
from tests.tui.test_session import make, wait_for


def began(session: ScreenSession) -> bool:
    session.poll()
    return session.snapshot.view.environment is not None


def test_a_run_that_ends_while_paused_is_not_called_interrupted(tmp_path: Path) -> None:
    session, starter = make(tmp_path)
    plan = journals.experiment(("small",))
    run = session.start(plan, ())
    with run.lock():
        wait_for(lambda: began(session))
        session.toggle_pause()
        starter.writers[0].end()
    time.sleep(2 * ALIVE_S)
    session.poll()
    assert session.alive  # as in the picture that is held
    session.toggle_pause()
    wait_for(lambda: session.poll() and not session.alive, 10.0)
    assert session.snapshot.view.outcome == "complete"
    session.close()


def test_an_engine_counts_as_gone_once_its_last_words_are_read(tmp_path: Path) -> None:
    now = [0.0]
    starter = FakeStarter()
    session = ScreenSession(RunStore(tmp_path), starter, clock=lambda: now[0], period_s=0.3)
    run = session.start(journals.experiment(("small",)), ())
    with run.lock():
        wait_for(lambda: began(session))
        starter.writers[0].end()
    seen = set()
    deadline = time.monotonic() + 5.0
    while session.alive and time.monotonic() < deadline:
        now[0] += ALIVE_S + 2.0
        session.poll()
        seen.add((session.alive, session.snapshot.view.outcome))
        time.sleep(0.01)
    assert (False, "complete") in seen
    assert (False, None) not in seen
    session.close()
