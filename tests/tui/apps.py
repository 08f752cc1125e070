"""The app over a store of its own, with a starter that writes a journal instead of an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from textual.pilot import Pilot

from llmprof.core.catalog.models import load_models
from llmprof.core.spec.experiment import Experiment
from llmprof.core.state.view import RunView
from llmprof.core.store.run import Run, RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.bench.view import BenchView
from llmprof.tui.kit.table import RowTable
from llmprof.tui.runs.view import RunsView
from llmprof.tui.session.screen_session import ScreenSession
from llmprof.tui.session.setting import Setting
from tests.builders.journals import Writer
from tests.tui.frames import settle

SIZES = ((80, 24), (120, 30))
sizes = pytest.mark.parametrize("size", SIZES, ids=lambda s: f"{s[0]}x{s[1]}")


class FakeStarter:
    """Keeps what it was asked to start and begins the journal."""

    def __init__(self) -> None:
        self.warmed = self.dismissed = False
        self.started: list[tuple[Run, Experiment, tuple[str, ...]]] = []
        self.writers: list[Writer] = []
        self.code: int | None = None
        self.resumed: tuple[int, ...] | None = None

    def warm(self) -> None:
        self.warmed = True

    def start(
        self, run: Run, experiment: Experiment, command: tuple[str, ...],
        resume: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        self.resumed = resume
        self.started.append((run, experiment, command))
        writer = Writer(run)
        writer.begin(experiment)
        self.writers.append(writer)

    def exit_code(self) -> int | None:
        return self.code

    def dismiss(self) -> None:
        self.dismissed = True


def make_app(root: Path, **options: Any) -> tuple[LlmprofApp, FakeStarter]:
    starter = FakeStarter()
    setting = Setting(
        store=RunStore(root), starter=starter, models=load_models(), refresh_hz=10.0, **options
    )
    return LlmprofApp(setting), starter


def polled(session: ScreenSession) -> RunView:
    """What is in the picture once the session has looked for news."""
    session.poll()
    return session.snapshot.view


def bench(app: LlmprofApp) -> BenchView:
    view = app.base_view
    assert isinstance(view, BenchView)
    return view


def focused_id(app: LlmprofApp) -> str | None:
    return app.focused.id if app.focused else None


def pinned(view: BenchView) -> list[int]:
    return [] if view.pinned is None else [view.pinned]


def shows(app: LlmprofApp, name: str) -> bool:
    return app.current_mode == name


def table(app: LlmprofApp) -> RowTable:
    assert app.base_view is not None
    return app.base_view.query_one(RowTable)


async def open_runs(pilot: Pilot[Any]) -> RunsView:
    await pilot.press("2")
    await settle(pilot)
    view = cast(LlmprofApp, pilot.app).base_view
    assert isinstance(view, RunsView)
    await settle(pilot, lambda: bool(view.query_one(RowTable).rows))
    return view
