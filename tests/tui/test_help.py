"""The list of keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.tui.help import HelpDialog, HelpText, active, by_area
from llmprof.tui.kit.canvas import row_length
from tests.tui.apps import make_app
from tests.tui.frames import contains, settle


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 30)], ids=lambda s: f"{s[0]}x{s[1]}")
async def test_what_a_key_does_is_whole_at_every_width(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        keys = by_area(active(app.screen.active_bindings))
        await pilot.press("question_mark")
        await settle(pilot, lambda: contains(app, "Keys"))
        text = app.screen.query_one(HelpText)
        rows = text.draw(text.size.width, text.size.height)
        assert len(rows) == text.size.height
        assert all(row_length(row) <= text.size.width for row in rows)
        said = " ".join(part for row in rows for part, role in row if role == "text")
        for does in (does for area in keys.values() for does in area.values()):
            assert does in said


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


@pytest.mark.parametrize("key", ["question_mark", "f1", "q", "escape"])
async def test_the_list_of_keys_closes_as_it_opened(tmp_path: Path, key: str) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("question_mark")
        await settle(pilot, lambda: isinstance(app.screen, HelpDialog))
        await pilot.press(key)
        await settle(pilot, lambda: not isinstance(app.screen, HelpDialog))
        assert app.return_code is None
