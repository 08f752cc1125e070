"""The key bar with a mouse, what a card does not tell, and which panels come first."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core import events as ev
from llmprof.core.spec.shape import SpecError
from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from llmprof.core.store.run import RunStore
from llmprof.tui.bench.device_chart import device_values, missing_reasons
from llmprof.tui.bench.forecast import card_here
from llmprof.tui.bench.live import LivePanels
from llmprof.tui.bench.setup import SetupPane
from llmprof.tui.help import HelpDialog, active, by_area
from llmprof.tui.kit.key_bar import KeyBar
from llmprof.tui.kit.table_cells import TableCell
from llmprof.tui.session.choices import Choices
from tests.tui import journals
from tests.tui.apps import make_app
from tests.tui.frames import contains, settle, text_of


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))


# The key bar


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


# What the device does not tell


def view_with(folder: Path, **metrics: ev.Metric) -> RunView:
    store = RunStore(folder)
    run = store.create("bench")
    writer = journals.Writer(run)
    writer.begin(journals.experiment(("tiny",)))
    card = ev.CardSample(index=0, uuid="GPU-1", name="NVIDIA H100", metrics=metrics)
    writer.put(ev.DeviceSample(t=writer.t, host=ev.HostSample(memory_used_bytes=2 << 30),
                               cards=(card,)))  # fmt: skip
    return replay(run.journal)


def test_metrics_that_a_card_does_not_give_are_named_with_their_reasons(tmp_path: Path) -> None:
    power = ev.Metric(None, "not supported\x1b[31m")
    view = view_with(tmp_path, power=power, utilization=ev.Metric(None, "shared under MIG"))
    said = missing_reasons(view)
    assert said.startswith("no utilisation: shared under MIG; no power: not supported")
    assert "\x1b" not in said
    assert "120 W" not in device_values(view)[0][0]  # an older reading is not the newest


def test_nothing_is_missing_where_all_is_known_or_nothing_was_read(tmp_path: Path) -> None:
    assert missing_reasons(view_with(tmp_path, power=ev.Metric(300.0))) == ""
    assert missing_reasons(RunView()) == ""


async def test_the_device_chart_says_what_is_missing(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path), ("tiny",))
    card = ev.CardSample(index=0, uuid="GPU-1",
                         metrics={"power": ev.Metric(None, "no sensor")})  # fmt: skip
    late = ev.DeviceSample(t=2**60, host=ev.HostSample(), cards=(card,))
    with run.journal.open("ab") as journal:
        journal.write(ev.encode(late))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(pilot, lambda: contains(app, "no power: no sensor"))
        assert contains(app, "Device")


# The card that is assumed


def driver_folder(folder: Path, *models: str) -> Path:
    for at, model in enumerate(models):
        place = folder / f"0000:0{at}:00.0"
        place.mkdir(parents=True)
        (place / "information").write_text(f"Model: \t\t {model}\nIRQ:   \t\t 16\n", "utf-8")
    return folder


def test_the_driver_names_the_card_before_anything_runs(tmp_path: Path) -> None:
    name = "NVIDIA H100 80GB HBM3"
    card = card_here(driver_folder(tmp_path / "two", name, name))
    assert card is not None
    assert card.here
    assert 79 < card.room.total_bytes / 2**30 < 81


@pytest.mark.parametrize(
    "models", [(), ("Unheard-of 9000",), ("NVIDIA H100 80GB HBM3", "Tesla T4")]
)
def test_no_card_is_guessed(tmp_path: Path, models: tuple[str, ...]) -> None:
    assert card_here(driver_folder(tmp_path / "gpus", *models)) is None


def test_a_hidden_card_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = driver_folder(tmp_path / "gpus", "Tesla T4")
    assert card_here(folder) is not None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert card_here(folder) is None


async def test_without_a_card_the_form_says_which_it_assumes_and_how_to_pick(
    tmp_path: Path,
) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "no card, as H100-80GB"))
        assert contains(app, "←→ picks another")
        app.screen.query_one("#pick-card").focus()
        await pilot.press("right", "right")
        await settle(pilot, lambda: app.choices.card not in ("", "H100-80GB"))
        assert not contains(app, "picks another")
        assert contains(app, app.choices.card)


async def test_a_broken_cards_file_costs_the_forecast_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise SpecError("cards file: not TOML")

    monkeypatch.setattr("llmprof.tui.bench.forecast.load_cards", broken)
    app, starter = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "no card, as"))
        assert not contains(app, "GiB")
        await pilot.press("r")
        await settle(pilot, lambda: len(starter.started) == 1)


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


# What comes first


async def test_the_first_frame_has_the_form_and_the_panels_follow(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        assert app.screen.query(SetupPane)
        await settle(pilot, lambda: contains(app, "waiting for the first step"))
        assert app.screen.query_one(LivePanels).ready


async def test_a_watched_run_has_its_panels_at_once(tmp_path: Path) -> None:
    app, _ = make_app(tmp_path, watch=journals.finished(RunStore(tmp_path)))
    async with app.run_test(size=(120, 30)) as pilot:
        assert app.screen.query(LivePanels)
        await settle(pilot, lambda: contains(app, "finished"))
        assert app.focused is not None
        assert app.focused.id == "results"
        assert not contains(app, "Models")


def test_a_sample_that_ends_with_the_case_is_the_last_of_its_curves(tmp_path: Path) -> None:
    from llmprof.tui.bench.device_curves import DeviceCurves

    view = replay(journals.finished(RunStore(tmp_path), ("tiny",)).journal)
    times, _ = view.host_cpu.points()
    curves = DeviceCurves(times[0])
    curves.update(view, times[2])
    assert {e.count for e in curves.envelopes.values()} == {3}
    curves.update(view, times[2])  # nothing twice
    assert {e.count for e in curves.envelopes.values()} == {3}
    curves.update(view)
    assert {e.count for e in curves.envelopes.values()} == {len(times)}


# What must not be cut


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


def test_a_cell_without_room_says_it_in_fewer_words() -> None:
    cell = TableCell("unstable: steps became 9 % longer", short="unstable")
    assert cell.shown(40) == cell.text
    assert cell.shown(11) == "unstable"
    assert TableCell("a long word alone").shown(5) == "a long word alone"


async def test_the_verdict_of_the_row_under_the_cursor_is_whole(tmp_path: Path) -> None:
    run = journals.finished(RunStore(tmp_path), ("tiny", "small"))
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "finished"))
        await pilot.press("end")
        await settle(pilot, lambda: contains(app, "in backward asked 3.00 GiB: out of memory"))
        await pilot.press("home")
        await settle(pilot, lambda: contains(app, "very stable"))
        heading = next(line for line in text_of(app).splitlines() if "Results" in line)
        assert "asked" not in heading


# Help


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


# A run whose engine is gone


async def test_no_case_runs_on_in_a_run_whose_engine_is_gone(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = store.create("bench")
    writer = journals.Writer(run)
    plan = journals.experiment(("small", "medium"))
    writer.begin(plan)
    writer.case(0, plan.cases()[0], steps=4, finish=False)
    app, _ = make_app(tmp_path, watch=run)
    async with app.run_test(size=(120, 30)) as pilot:
        with run.lock():
            app.watch_run(run)
            await settle(pilot, lambda: contains(app, "4/10"))
            assert contains(app, "step 4 of 10")
            assert contains(app, f"{app.look.running} ")
            assert contains(app, "pending")
        await settle(pilot, lambda: contains(app, "its engine is gone"))
        assert not contains(app, f"{app.look.running} ")
        assert not contains(app, "pending")
        assert contains(app, "killed")
        assert contains(app, "skipped")
        app.toggle_pause()  # a picture that is held stays as it is
        await settle(pilot)
        assert contains(app, "killed")
