"""What stands on the screen of an app under test."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

from textual.app import App
from textual.pilot import Pilot

from llmprof.tui.app import LlmprofApp
from llmprof.tui.kit.view import View
from tests.waiting import LOOK_S, PATIENCE_S


def text_of(app: App[Any]) -> str:
    """The characters of the screen, line by line."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(seg.text for seg in strip)[:width] for strip in lines[:height])


def contains(app: App[Any], text: str) -> bool:
    return text in text_of(app)


def complete(app: App[Any]) -> bool:
    """Whether the view under any dialog has all that it is made of."""
    view = app.screen_stack[0] if app.screen_stack else None
    return not isinstance(view, View) or view.complete


async def hold(pilot: Pilot[Any], key: str, times: int) -> None:
    """Hold a key down: it comes again before the screen has answered."""
    for _ in range(times):
        pilot.app.simulate_key(key)
    await pilot.pause()


async def settle(
    pilot: Pilot[Any], condition: Callable[[], bool] | None = None, seconds: float = PATIENCE_S
) -> None:
    """Wait until the view is complete, a condition holds, and what follows from it is drawn."""
    await pilot.pause()
    deadline = time.monotonic() + seconds
    while not complete(pilot.app) or (condition is not None and not condition()):
        assert time.monotonic() < deadline, text_of(pilot.app)
        await pilot.pause(LOOK_S)
    await pilot.pause()


async def look_again(pilot: Pilot[Any], times: int = 3) -> None:
    """Wait until the app has looked for news some more times: what it would show then stands."""
    session, looks = cast(LlmprofApp, pilot.app).session, 0
    poll = session.poll

    def counted() -> bool:
        nonlocal looks
        looks += 1
        return poll()

    session.poll = counted  # type: ignore[method-assign]
    await settle(pilot, lambda: looks >= times)
    session.poll = poll  # type: ignore[method-assign]
