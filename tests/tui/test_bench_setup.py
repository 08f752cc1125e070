"""The set-up pane, filled in with keys."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from textual.widget import Widget
from textual.widgets import Input

from llmprof.core.catalog.models import load_models
from llmprof.core.store.run import RunStore
from llmprof.tui.bench.equivalent import Equivalent, wrapped
from llmprof.tui.bench.fits import VERDICT_ROLES, FitsBar
from llmprof.tui.bench.setup import OF_ATTENTION, OWN_SIZES, SetupPane
from llmprof.tui.kit.canvas import row_length
from llmprof.tui.kit.checklist import Checklist
from llmprof.tui.kit.chips import Chips
from llmprof.tui.kit.field import FormInput
from llmprof.tui.session.choices import CHOSEN, Choices
from llmprof.tui.session.remembered import recall
from tests.builders import journals
from tests.tui.apps import focused_id, make_app, sizes
from tests.tui.frames import contains, settle, text_of


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
        while focused_id(app) != "context_length":
            await pilot.press("down")
        await pilot.press("backspace", "backspace", "backspace")
        assert contains(app, "Context: a number is missing")
        await pilot.press("r")  # a letter in a field is no key
        assert not starter.started
        await pilot.press("backspace", "6", "4", "comma", "3", "2")
        assert app.choices.context_length == "64,32"
        await pilot.press("enter", "up", "escape")
        assert app.focused is None
        await pilot.press("r")
        await settle(pilot)
        assert starter.started[0][1].context_lengths == (64, 32)
    assert recall(app.models).context_length == "64,32"


@pytest.mark.parametrize("width", range(80, 92))
async def test_a_line_says_that_it_has_more_options(tmp_path: Path, width: int) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(width, 40)) as pilot:
        await settle(pilot, lambda: contains(app, "this machine"))
        for chips in app.screen.query(Chips):
            (line,) = [
                row for row in text_of(app).splitlines() if row[1:].startswith(f"{chips.label:12}")
            ]
            said = set(line.replace(chips.label, "", 1).split())
            shown = set(" ".join(chips.names.values()).split())
            assert said >= shown or app.look.ellipsis in said, line


def _within(outer: Widget, inner: Widget) -> bool:
    return outer.region.contains_region(inner.region)


@sizes
async def test_what_has_the_keys_is_in_sight_and_its_label_apart(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "this machine"))
        form = app.screen.query_one("#form")
        seen: list[str | None] = []
        while focused_id(app) != "measure_steps":
            here = app.focused
            assert here is not None
            await settle(pilot, partial(_within, form, here))
            if isinstance(here, Chips):
                assert contains(app, f"{here.label} "), here.label
                assert all(contains(app, f" {name}") for name in here.names.values())
            seen.append(here.id)
            await pilot.press("down")
        assert {axis.plural for axis in CHOSEN} | {"checkpoint", "accumulate"} <= set(seen)


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
        await pilot.press("y")
        assert not starter.started
        assert isinstance(app.focused, Checklist)


async def test_f5_runs_from_a_field_and_y_copies(tmp_path: Path) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot)
        await pilot.press("y")
        assert app.clipboard.startswith("llmprof run --model-size small --mode train")
        app.screen.query_one("#context_length", Input).focus()
        await pilot.press("f5")
        await settle(pilot)
        assert len(starter.started) == 1


async def test_smoke_says_that_the_form_is_not_measured_until_it_is_changed(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, lambda: contains(app, "this machine"))
        parts: list[Checklist | Chips] = [*app.screen.query(Checklist)]
        parts += [chips for chips in app.screen.query(Chips) if chips.id != OF_ATTENTION]
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
        await settle(pilot, lambda: contains(app, "this machine"))
        assert contains(app, OWN_SIZES)
        assert app.screen.query_one(Checklist).idle
        app.screen.query_one("#context_length").focus()
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
        await settle(pilot, lambda: contains(app, " of "))
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
        context_length="1024",
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
        await settle(pilot, lambda: contains(app, "this machine"))
        assert contains(app, "--optimizer fused,loop")


FURTHER_AXIS = '''
import asyncio, sys, types
from importlib.util import find_spec
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

spec = find_spec("llmprof.core.spec.axes")
source = Path(spec.origin).read_text("utf-8").replace(
    "    compile: Annotated[",
    """    dropout: Annotated[
        typing.Literal["off", "tenth"],
        Axis("Dropout", "dropouts", "switch", "of activations"),
    ] = "off"
    head_count: Annotated[int, Axis("Heads", "head_counts", "work", "heads (7)")] = 7
    compile: Annotated[""", 1)
module = types.ModuleType("llmprof.core.spec.axes")
module.__file__, module.__package__ = spec.origin, "llmprof.core.spec"
sys.modules[module.__name__] = module
exec(compile(source, spec.origin, "exec", dont_inherit=True), vars(module))

from tests.tui.apps import make_app
from tests.tui.frames import settle, text_of

async def main():
    app, starter = make_app(Path(sys.argv[1]))
    async with app.run_test(size=(140, 50)) as pilot:
        await settle(pilot)
        app.screen.query_one("#dropouts").focus()
        await pilot.press("right", "space", "r")
        await settle(pilot, lambda: starter.started)
        await pilot.press("s")
        await settle(pilot, lambda: "tenth" in text_of(app))
        print(text_of(app))
        print(starter.started[0][2], starter.started[0][1].dropouts)

asyncio.run(main())
'''


def test_a_further_axis_is_offered_without_touching_the_screen(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    paths = os.pathsep.join([str(root / "src"), str(root)])
    env = {**os.environ, "PYTHONPATH": paths, "LLMPROF_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [sys.executable, "-c", FURTHER_AXIS, str(tmp_path)],
        env=env, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"Dropout +● off +● tenth", done.stdout)
    assert re.search(r"Heads +7", done.stdout)
    assert "'--dropout', 'off,tenth'" in done.stdout
    assert "('off', 'tenth')" in done.stdout


@sizes
async def test_compile_is_offered(tmp_path: Path, size: tuple[int, int]) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        app.screen.query_one("#compiles").focus()
        await pilot.press("right", "enter", "r")
        await settle(pilot, lambda: len(starter.started) == 1)
    assert starter.started[0][1].compiles == ("default",)
    assert "--compile default" in " ".join(starter.started[0][2])


@sizes
async def test_an_invalid_field_is_red_and_has_the_cursor_after_f5(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        field = app.screen.query_one("#batch_size", Input)
        ground = field.styles.background
        field.focus()
        field.value = ""
        await settle(pilot, lambda: contains(app, "Batch: a number is missing"))
        await pilot.press("f5")
        await settle(pilot)
        assert focused_id(app) == "batch_size"
        assert not starter.started
        assert field.has_class("-invalid")
        assert field.styles.background != ground  # an empty field has no text to be red


async def test_one_case_that_does_not_fit_and_one_that_does(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path, choices=Choices(models=("tiny", "10B")))
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "1 does not fit  1 fits"))


async def test_in_a_large_window_the_experiment_is_told_whole(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(200, 50)) as pilot:
        await settle(pilot, lambda: contains(app, "picks another"))
        assert contains(app, "Forward, backward and optimizer of each size")
        inputs = [field.region.x for field in app.screen.query(FormInput)]
        assert inputs[0] == inputs[1]  # one's own model, and the first number


@pytest.mark.parametrize("width", [60, 72, 80, 100, 120, 200])
async def test_verdicts_are_in_the_same_words_at_every_width(tmp_path: Path, width: int) -> None:
    app, _ = make_app(tmp_path, choices=Choices(models=("small", "10B")))
    async with app.run_test(size=(width, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "does not fit"))
        line = next(text for text in text_of(app).splitlines() if " 10B " in text)
        assert "does not fit" in line
        assert "OOM" not in text_of(app)


@pytest.mark.parametrize("width", [30, 40, 58, 67])
def test_a_long_list_is_broken_between_its_items_and_read_as_one_word(width: int) -> None:
    models = ",".join(load_models())
    words = ("llmprof run", f"--model-size {models}", "--mode train", "--precision fp32,bf16")
    lines = wrapped(words, width)
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert shlex.split(text.replace("\\\n", "")) == shlex.split(" ".join(words))


@sizes
async def test_what_is_wrong_with_the_form_is_said_whole(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        app.query_one(SetupPane).query_one("#accumulate", Input).value = "3"
        await settle(pilot, lambda: contains(app, "equal micro-batches"))
        pane = app.query_one(Equivalent)
        said = " ".join(
            part for row in pane.draw(*pane.size) for part, role in row if role == "bad"
        )
        assert said.endswith("cut into 3 equal micro-batches: --accumulate must divide it")


async def test_what_is_off_is_called_as_tables_call_it(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert contains(app, "SDPA kernel ● torch's choice")
        assert contains(app, "Compile     ● eager")
        chips = app.screen.query_one("#sdpa_backends", Chips)
        assert chips.chosen == ("none",)
        assert chips.idle  # one model's attention is torch's choice in any case


@pytest.mark.parametrize("width", [60, 64, 68, 72, 80])
async def test_a_forecast_keeps_its_verdict_where_there_is_little_room(
    tmp_path: Path, width: int
) -> None:
    app, _ = make_app(tmp_path, choices=Choices(models=("small",)))
    async with app.run_test(size=(width, 20)) as pilot:
        await settle(pilot, lambda: contains(app, "this machine"))
        bar = app.screen.query_one(FitsBar)
        await settle(pilot, lambda: bool(bar.size.width and row_length(bar.draw(99, 1)[0]) > 30))
        (line,) = bar.draw(bar.size.width, 1)
        assert row_length(line) <= bar.size.width
        said = "".join(text for text, _ in line)
        assert any(verdict in said for verdict in VERDICT_ROLES), said
