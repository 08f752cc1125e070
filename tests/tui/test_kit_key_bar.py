"""The key bar with a mouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.tui.help import HelpDialog
from llmprof.tui.kit.key_bar import KeyBar
from tests.tui.apps import make_app
from tests.tui.frames import settle, text_of


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))


async def test_a_click_on_the_key_bar_presses_the_key(tmp_path: Path) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot)
        bar = text_of(app).splitlines()[-1]
        await pilot.click(KeyBar, offset=(bar.index("Help") + 1, 0))
        await settle(pilot, lambda: isinstance(app.screen, HelpDialog))
        await pilot.press("escape")
        await settle(pilot, lambda: not isinstance(app.screen, HelpDialog))
        assert starter.started == []
        await pilot.click(KeyBar, offset=(bar.index("Run"), 0))
        await settle(pilot, lambda: len(starter.started) == 1)


async def test_a_click_between_the_keys_presses_none(tmp_path: Path) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot)
        bar = text_of(app).splitlines()[-1]
        await pilot.click(KeyBar, offset=(len(bar.rstrip()) + 3, 0))
        await settle(pilot)
        assert starter.started == []
        assert app.screen is app.base_view


async def test_hovering_over_a_key_tells_what_it_does(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot)
        keys = app.screen.query_one(KeyBar)
        bar = text_of(app).splitlines()[-1]
        await pilot.hover(KeyBar, offset=(bar.index("Quit"), 0))
        assert keys.tooltip == "leave; asks what becomes of a run"
        await pilot.hover(KeyBar, offset=(bar.index("Set-up"), 0))
        assert keys.tooltip == "show or hide the set-up pane"
        await pilot.hover(KeyBar, offset=(len(bar.rstrip()) + 3, 0))
        assert keys.tooltip is None
