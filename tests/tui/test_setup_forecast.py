"""The set-up pane's experiments, their commands, and what memory they would need."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import pytest

from llmprof.cli.options import experiment_from
from llmprof.cli.run import add_arguments
from llmprof.core.catalog.models import load_models
from llmprof.core.events import Environment
from llmprof.core.predict.closed_form import predict
from llmprof.core.predict.fits import CONTEXT_LOW
from llmprof.core.spec.case import Case
from llmprof.tui.bench.fits import context_label
from llmprof.tui.bench.forecast import Forecast, card_of_machine, every_model, named_card
from llmprof.tui.bench.setup import OWN_SIZES
from llmprof.tui.kit.checklist import Checklist
from llmprof.tui.kit.chips import Chips
from llmprof.tui.session.choices import (
    Choices,
    check_choices,
    choose_experiment,
    command,
    experiments,
)
from tests.tui.apps import make_app
from tests.tui.frames import contains, settle

MODELS = load_models()


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("smoke", [False, True])
@pytest.mark.parametrize("name", list(experiments()))
def test_every_experiment_and_its_command_measure_the_same(name: str, smoke: bool) -> None:
    if smoke and not experiments()[name][1]:
        pytest.skip("no smoke sizes")
    form = choose_experiment(Choices(), name, MODELS, smoke=smoke)
    for choices in (form, msgspec.structs.replace(form, precisions=("bf16",), context="64,96")):
        checked = check_choices(choices, MODELS)
        assert checked.experiment is not None, checked.message
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        words = command(checked.experiment, smoke=checked.smoke)
        args = parser.parse_args(words[2:])
        assert experiment_from(args, args.experiment) == checked.experiment
        assert checked.experiment.name == name


def forecast_of(card: str, **changes: object) -> Forecast:
    choices = msgspec.structs.replace(Choices(), **changes)
    experiment = check_choices(choices, MODELS).experiment
    room = named_card(card)
    assert experiment is not None
    assert room is not None
    return Forecast(room, experiment.cases(), every_model(experiment, MODELS))


def test_a_forecast_goes_on_in_slices_and_begins_with_the_largest() -> None:
    forecast = forecast_of("T4", models=("tiny", "small", "10B"), context="128,256")
    assert not forecast.work(0.0)
    assert [need.case.model.name for need in forecast.needs] == ["10B"]
    first = forecast.largest
    while not forecast.work(0.0):
        pass
    assert forecast.largest == first
    assert len(forecast.needs) == forecast.ticked == 6
    assert forecast.count("does not fit") == 2
    assert forecast.by_model["10B"] == "does not fit"
    assert forecast.by_model["tiny"] == "fits"
    assert set(forecast.by_model) == set(MODELS)


def test_what_the_closed_form_does_not_know_is_counted() -> None:
    forecast = forecast_of("T4", experiment="attention")
    forecast.work(60.0)
    assert forecast.largest is None
    assert forecast.unknown == forecast.ticked > 0


def test_the_card_of_a_run() -> None:
    here = Environment(device="cuda:0", device_name="NVIDIA H100 80GB HBM3", capability=(9, 0),
                       memory_total_bytes=80 << 30, memory_free_bytes=70 << 30)  # fmt: skip
    card = card_of_machine(here)
    assert card is not None
    # What was free was read beside the probe's own context, here one of an assumed size.
    assert (card.here, card.room.free_bytes) == (True, (70 << 30) + CONTEXT_LOW)
    assert card.room.context_bytes is None
    measured = card_of_machine(msgspec.structs.replace(here, context_bytes=528 << 20))
    assert measured is not None
    assert (measured.room.free_bytes, measured.room.context_bytes) == (
        (70 << 30) + (528 << 20),
        528 << 20,
    )
    assert card_of_machine(msgspec.structs.replace(here, device="cpu")) is None
    assert card_of_machine(None) is None


def test_the_bar_tells_a_context_that_was_measured() -> None:
    here = Environment(device="cuda:0", device_name="NVIDIA H100 80GB HBM3", capability=(9, 0),
                       memory_total_bytes=80 << 30, memory_free_bytes=70 << 30)  # fmt: skip
    shown = []
    for context in (None, 528 << 20):
        card = card_of_machine(msgspec.structs.replace(here, context_bytes=context))
        assert card is not None
        forecast = Forecast(card, [Case(model=MODELS["small"])], ())
        forecast.work(60.0)
        (need,) = forecast.needs
        assert need.low == predict(Case(model=MODELS["small"])).allocated_low + (
            context or CONTEXT_LOW
        )
        shown.append(context_label(forecast).strip())
    assert shown == ["", "with its CUDA context, 528 MiB"]


@pytest.mark.parametrize("size", [(80, 24), (120, 30)], ids=lambda s: f"{s[0]}x{s[1]}")
async def test_the_bar_follows_every_change(tmp_path: Path, size: tuple[int, int]) -> None:
    app, starter = make_app(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, lambda: contains(app, "of 79.6 GiB") and contains(app, "no card"))
        assert app.focused is not None
        assert app.focused.id == "models"
        await settle(pilot, lambda: contains(app, "does not fit") or contains(app, "OOM"))
        app.screen.query_one("#pick-experiment").focus()
        await pilot.press("right")
        await settle(pilot, lambda: contains(app, "llmprof run warmup"))
        app.screen.query_one("#pick-card").focus()
        await pilot.press("left")
        await settle(pilot, lambda: not contains(app, "of 79.6 GiB") and contains(app, " GiB"))
        app.screen.query_one("#pick-experiment").focus()
        await pilot.press("space")
        await settle(pilot, lambda: contains(app, "llmprof run warmup --smoke"))
        await pilot.press("r")
        await settle(pilot, lambda: len(starter.started) == 1)
    assert starter.started[0][2] == ("llmprof", "run", "warmup", "--smoke")
    assert [model.name for model in starter.started[0][1].models] == ["smoke"]


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
