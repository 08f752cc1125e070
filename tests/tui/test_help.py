"""The list of keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.tui.help import active, by_area
from tests.tui.apps import make_app
from tests.tui.frames import contains, settle


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))


async def test_help_begins_with_the_keys_of_the_view_and_names_each_as_it_is_typed(
    tmp_path: Path,
) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot)
        areas = list(by_area(active(app.screen.active_bindings)))
        assert areas[0] == "bench"
        assert areas[-1] == "app"
        await pilot.press("4")
        await settle(pilot, lambda: app.current_mode == "memory")
        groups = by_area(active(app.screen.active_bindings))
        assert next(iter(groups)) == "memory"
        await pilot.press("question_mark")
        await settle(pilot, lambda: contains(app, "Keys"))
        assert contains(app, "│  Memory ─")
        keys = " ".join(key for area in groups.values() for key in area)
        assert "bracket" not in keys
        assert "ctrl" not in keys
        assert "^c" in keys
