"""What looks focused, where the filter stands, and what another theme leaves of the old one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from textual.theme import Theme

from llmprof.core.store.run import RunStore
from llmprof.tui.app import LlmprofApp
from llmprof.tui.kit.canvas import Canvas
from llmprof.tui.kit.filter import FilterInput
from tests.builders import journals
from tests.tui.apps import make_app, open_runs
from tests.tui.frames import contains, settle
from tests.tui.machines import Machine, recorded


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def with_cursor(app: LlmprofApp) -> list[str | None]:
    """The canvases that have cells on the cursor's ground."""
    return [
        canvas.id
        for canvas in app.screen.query(Canvas)
        if any("+cursor" in role for row in canvas._rows for _, role in row)
    ]


async def test_exactly_what_has_the_keys_looks_focused(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        for _ in range(24):  # once round the form and more
            focused = app.focused
            if isinstance(focused, Canvas):
                assert with_cursor(app) == [focused.id]
            else:
                assert with_cursor(app) == []
            await pilot.press("tab")
        app.screen.set_focus(None)
        await pilot.pause()
        assert with_cursor(app) == []


async def test_the_filter_is_seen_while_it_is_typed(tmp_path: Path) -> None:
    journals.finished(RunStore(tmp_path))
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot)
        view = await open_runs(pilot)
        line = view.query_one(FilterInput)
        heights = [line.region.height]
        for key in ("slash", "x", "escape"):
            await pilot.press(key)
            await settle(pilot)
            heights.append(line.region.height)
        assert heights == [0, 1, 1, 0]


async def test_another_theme_leaves_no_colour_of_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = LlmprofApp._theme_changed

    def drawn_before(app: LlmprofApp, theme: Theme) -> None:
        for canvas in app.screen.query(Canvas):  # the screen may be drawn before it is told
            for y in range(canvas.size.height):
                canvas.render_line(y)
        change(app, theme)

    monkeypatch.setattr(LlmprofApp, "_theme_changed", drawn_before)
    seen = []
    for keys, theme in ((["t"], "llmprof-dark"), ([], "llmprof-light")):
        machine = Machine(recorded(6))
        app, _ = make_app(tmp_path, monitoring=machine.monitoring, view="monitor", theme=theme)
        async with app.run_test(size=(120, 30)) as pilot:
            await settle(pilot, partial(contains, app, "utilisation"))
            await pilot.press(*keys)
            await settle(pilot)
            seen.append(colours(app))
    assert seen[0] == seen[1]


def colours(app: LlmprofApp) -> set[object]:
    strips = app.screen._compositor.render_strips()
    styles = [segment.style for strip in strips for segment in strip if segment.style is not None]
    return {color for style in styles for color in (style.color, style.bgcolor)}


def marked(app: LlmprofApp) -> bool:
    """Whether what has the keys is told by attributes: reverse or underlined cells of its own."""
    focused = app.focused
    assert focused is not None
    region = focused.region
    strips = app.screen._compositor.render_strips()[region.y : region.bottom]
    cells = [segment for strip in strips for segment in strip.crop(region.x, region.right)]
    styles = [segment.style for segment in cells if segment.style is not None]
    return any(style.reverse or style.underline for style in styles)


@pytest.mark.parametrize("size", [(80, 24), (120, 30), (200, 50)], ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize(
    "keys", [("s",), ("2",), ("2", "n"), ("2", "slash"), ("e",), ("q",)], ids=" ".join
)
async def test_what_has_the_keys_is_seen_without_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], keys: tuple[str, ...]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    run, _ = journals.live_run(tmp_path)
    app, _ = make_app(tmp_path, watch=run)
    with run.lock():
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            for key in keys:
                await pilot.press(key)
                await settle(pilot, lambda: app.screen.focused is not None)
            assert app.no_color
            for _ in range(16 if keys == ("s",) else 3):  # along the form, or the dialog
                await settle(pilot, partial(marked, app))
                await pilot.press("tab")
                await settle(pilot, lambda: app.screen.focused is not None)


async def test_the_command_under_the_cursor_is_seen_without_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot)
        await pilot.press("ctrl+p")
        await settle(pilot, partial(underlined, app, "Bench: Back"))
        await pilot.press("down")
        await settle(pilot, partial(underlined, app, "Bench: Copy command"))
        assert not underlined(app, "Bench: Back")


def underlined(app: LlmprofApp, text: str) -> bool:
    strips = app.screen._compositor.render_strips()
    segments = [segment for strip in strips for segment in strip if text in segment.text]
    return any(segment.style is not None and segment.style.underline for segment in segments)
