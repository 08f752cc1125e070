"""The set-up pane, filled in with keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input

from llmprof.core.store.run import RunStore
from llmprof.tui.bench.setup import OWN_SIZES, SetupPane
from llmprof.tui.kit.checklist import Checklist
from llmprof.tui.kit.chips import Chips
from llmprof.tui.session.choices import (
    Choices,
)
from llmprof.tui.session.remembered import recall
from tests.builders import journals
from tests.tui.apps import focused_id, make_app, sizes
from tests.tui.frames import contains, settle


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@sizes
async def test_the_form_is_filled_in_with_keys_alone(tmp_path: Path, size: tuple[int, int]) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await pilot.press("up", "space", "down", "space")  # tiny on, small off
        assert app.choices.models == ("tiny",)
        await pilot.press("a")
        assert len(app.choices.models) == len(app.models)
        await pilot.press("a", "k", "j")
        assert app.choices.models == ("small",)
        while focused_id(app) != "modes":
            await pilot.press("down")
        await pilot.press("left", "space")
        assert set(app.choices.modes) == {"forward-backward", "train"}
        await pilot.press("enter")
        assert set(app.choices.modes) == {"forward-backward"}
        await pilot.press("space")
        assert set(app.choices.modes) == {"forward-backward"}  # one stays
        await pilot.press("h", "l", "right", "k", "j", "j")
        assert focused_id(app) == "precisions"
        while focused_id(app) != "context":
            await pilot.press("down")
        await pilot.press("backspace", "backspace", "backspace")
        assert contains(app, "Context: a number is missing")
        await pilot.press("r")  # a letter in a field is no key
        assert not starter.started
        await pilot.press("backspace", "6", "4", "comma", "3", "2")
        assert app.choices.context == "64,32"
        await pilot.press("enter", "up", "escape")
        assert app.focused is None
        await pilot.press("r")
        await settle(pilot)
        assert starter.started[0][1].context_lengths == (64, 32)
    assert recall(app.models).context == "64,32"


@sizes
async def test_an_invalid_form_does_not_run_and_says_why(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await pilot.press("space")
        assert contains(app, "tick at least one model")
        await pilot.press("r")
        await pilot.press("c")
        assert not starter.started
        assert isinstance(app.focused, Checklist)


async def test_f5_runs_from_a_field_and_c_copies(tmp_path: Path) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot)
        await pilot.press("c")
        assert app.clipboard.startswith("llmprof run --model-size small --mode train")
        app.screen.query_one("#context", Input).focus()
        await pilot.press("f5")
        await settle(pilot)
        assert len(starter.started) == 1


async def test_smoke_says_that_the_form_is_not_measured_until_it_is_changed(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "no card"))
        parts = [*app.screen.query(Checklist), *app.screen.query(Chips)]
        app.screen.query_one("#pick-experiment").focus()
        await pilot.press("space")
        await settle(pilot, lambda: contains(app, OWN_SIZES))
        assert contains(app, "llmprof run --smoke")
        assert all(part.idle for part in parts)
        app.screen.query_one("#pick-card").focus()
        await pilot.press("left")  # the card of the forecast is none of the form's sizes
        await settle(pilot)
        assert contains(app, "llmprof run --smoke")
        app.screen.query_one(Checklist).focus()
        await pilot.press("down", "space")
        await settle(pilot, lambda: not contains(app, "--smoke"))
        assert contains(app, "--model-size small,medium")
        assert not any(part.idle for part in parts)
        assert not contains(app, OWN_SIZES)


async def test_remembered_smoke_sizes_are_told_at_once(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path, choices=Choices(smoke=True, models=("tiny",)))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "no card"))
        assert contains(app, OWN_SIZES)
        assert app.screen.query_one(Checklist).idle
        app.screen.query_one("#context").focus()
        await pilot.press("1")
        await settle(pilot, lambda: not contains(app, "--smoke"))


async def test_the_pane_of_a_watched_run_is_made_when_asked_for(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path, watch=journals.finished(RunStore(tmp_path)))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        assert not app.screen.query(SetupPane)
        await pilot.press("s")
        await settle(pilot, lambda: contains(app, "llmprof run --model-size small"))
        assert app.focused is not None
        assert app.focused.id == "models"
        await settle(pilot, lambda: contains(app, " of 79.6 GiB"))
        await pilot.press("s", "s")
        await settle(pilot)
        assert len(app.screen.query(SetupPane)) == 1


@pytest.mark.parametrize("size", [(80, 24), (100, 24), (120, 28)], ids=lambda s: f"{s[0]}x{s[1]}")
async def test_the_whole_command_stands_below_the_form(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    choices = Choices(
        models=("tiny", "small", "medium", "large", "xl", "2.7B"),
        modes=("forward-grad", "forward-backward"),
        precisions=("fp32", "bf16"),
        attentions=("naive", "sdpa"),
        optimizers=("fused", "loop"),
        context="1024",
    )
    app, _ = make_app(tmp_path, choices=choices)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "llmprof run"))
        assert contains(app, "--optimizer fused,loop")
        assert contains(app, "--precision fp32,bf16")
        for _ in range(30):  # the form scrolls above it
            if app.focused is not None and app.focused.id == "pick-card":
                break
            await pilot.press("down")
        else:
            pytest.fail("the card was never reached")
        await settle(pilot, lambda: contains(app, "no card, as"))
        assert contains(app, "--optimizer fused,loop")
