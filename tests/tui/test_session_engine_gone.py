"""When an engine counts as gone, against what of its journal is in the picture."""

from __future__ import annotations

from pathlib import Path

from llmprof.core.store.run import RunStore
from llmprof.tui.session.screen_session import ALIVE_S, ScreenSession
from tests.builders import journals
from tests.tui.apps import FakeStarter, polled
from tests.waiting import wait_for


def later(session: ScreenSession, now: list[float]) -> bool:
    """What polling tells once the engine is looked at again."""
    now[0] += ALIVE_S + 2.0
    return session.poll()


def test_a_run_that_ends_while_paused_is_not_called_interrupted(tmp_path: Path) -> None:
    now = [0.0]
    starter = FakeStarter()
    session = ScreenSession(RunStore(tmp_path), starter, clock=lambda: now[0])
    plan = journals.experiment(("small",))
    run = session.start(plan, ())
    with run.lock():
        wait_for(lambda: polled(session).environment is not None)
        session.toggle_pause()
        starter.writers[0].end()
    now[0] += 2 * ALIVE_S
    session.poll()
    assert session.alive  # as in the picture that is held
    session.toggle_pause()
    now[0] += 2 * ALIVE_S
    wait_for(lambda: later(session, now) and not session.alive)
    assert session.snapshot.view.outcome == "complete"
    session.close()


def test_an_engine_counts_as_gone_once_its_last_words_are_read(tmp_path: Path) -> None:
    now = [0.0]
    starter = FakeStarter()
    session = ScreenSession(RunStore(tmp_path), starter, clock=lambda: now[0], period_s=0.3)
    run = session.start(journals.experiment(("small",)), ())
    with run.lock():
        wait_for(lambda: polled(session).environment is not None)
        starter.writers[0].end()
    seen = set()

    def gone() -> bool:
        later(session, now)
        seen.add((session.alive, session.snapshot.view.outcome))
        return not session.alive

    wait_for(gone)
    assert (False, "complete") in seen
    assert (False, None) not in seen
    session.close()
