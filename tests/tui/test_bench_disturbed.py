"""Steps on a slowed-down or shared card, marked in the Bench view."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core import events as ev
from llmprof.core.store.journal import JournalWriter
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.bench.disturbed import Disturbed, chart_positions, in_words, marked_steps
from tests.builders.recorded_run import events, run
from tests.tui.apps import make_app
from tests.tui.frames import contains, settle


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))


def recorded(root: Path, first: float, last: float, steps: int) -> Run:
    made = RunStore(root).create("recorded")
    writer = JournalWriter(made.journal)
    writer.append(ev.Segment(t=0, boot_id="b", wall_ns=1, pid=1, version="0"))
    for event in events(first, last, steps):
        writer.append(event)
    writer.append(ev.RunDone(outcome="complete"))
    writer.close()
    return made


async def test_the_chart_and_the_step_log_mark_them_and_say_why(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path, watch=recorded(tmp_path, 29.0, 36.4, 74))
    async with app.run_test(size=(200, 50)) as pilot:
        await settle(pilot, lambda: contains(app, "throttled or shared"))
        assert contains(app, "power cap 0:07.")
        assert contains(app, "shared with pid 4002, user, python other.py")


async def test_a_quiet_run_has_no_marks(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path, watch=recorded(tmp_path, 19.4, 24.3, 49))
    async with app.run_test(size=(200, 50)) as pilot:
        await settle(pilot, lambda: contains(app, "49"))
        assert not contains(app, "throttled or shared")
        assert not contains(app, "shared with")


def test_a_running_case_is_looked_at_now_and_then() -> None:
    now = 0.0
    disturbed = Disturbed(lambda: now)
    view = run(10.6, 18.3, 77)
    found = disturbed.update(view, view.cases[0])
    assert disturbed.update(view, view.cases[0]) is found  # done: once
    assert len(marked_steps(found)) >= 70
    assert in_words(found).startswith("power cap 0:07.")
    going = run(10.6, 18.3, 77)
    case = type(going.cases[0])(
        0, going.cases[0].case, "running", 1, measured=going.cases[0].measured
    )
    first = disturbed.update(going, case)
    now = 1.0
    assert disturbed.update(going, case) is first
    now = 2.5
    assert disturbed.update(going, case) is not first


def test_marks_are_thinned_to_what_a_chart_shows() -> None:
    view = run(10.6, 18.3, 3000)
    found = Disturbed().update(view, view.cases[0])
    assert len(marked_steps(found)) > 2500
    assert len(chart_positions(found)) <= 500
    assert chart_positions(None) == []
    assert in_words(None) == ""
