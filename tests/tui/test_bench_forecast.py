"""What the form's cases would need, and of which card."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from llmprof.core.catalog.models import load_models
from llmprof.core.events import Environment
from llmprof.core.predict.closed_form import predict
from llmprof.core.predict.fits import CONTEXT_LOW
from llmprof.core.spec.case import Case
from llmprof.core.spec.shape import SpecError
from llmprof.tui.bench.fits import context_label
from llmprof.tui.bench.forecast import Forecast, card_here, card_of_machine, every_model, named_card
from llmprof.tui.session.choices import (
    Choices,
    check_choices,
)
from tests.tui.apps import make_app
from tests.tui.frames import contains, settle

MODELS = load_models()


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))


def forecast_of(card: str, **changes: object) -> Forecast:
    choices = msgspec.structs.replace(Choices(), **changes)
    experiment = check_choices(choices, MODELS).experiment
    room = named_card(card)
    assert experiment is not None
    assert room is not None
    return Forecast(room, experiment.cases(), every_model(experiment, MODELS))


def test_a_forecast_goes_on_in_slices_and_begins_with_the_largest() -> None:
    forecast = forecast_of("T4", models=("tiny", "small", "10B"), context_length="128,256")
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
        await settle(pilot, lambda: contains(app, "of 32.0 GiB") and contains(app, "this machine"))
        assert app.focused is not None
        assert app.focused.id == "models"
        await settle(pilot, lambda: contains(app, "does not fit") or contains(app, "OOM"))
        app.screen.query_one("#pick-experiment").focus()
        await pilot.press("right")
        await settle(pilot, lambda: contains(app, "llmprof run warmup"))
        app.screen.query_one("#pick-card").focus()
        await pilot.press("left")
        await settle(pilot, lambda: not contains(app, "of 32.0 GiB") and contains(app, " GiB"))
        app.screen.query_one("#pick-experiment").focus()
        await pilot.press("space")
        await settle(pilot, lambda: contains(app, "llmprof run warmup --smoke"))
        await pilot.press("r")
        await settle(pilot, lambda: len(starter.started) == 1)
    assert starter.started[0][2] == ("llmprof", "run", "warmup", "--smoke")
    assert [model.name for model in starter.started[0][1].models] == ["smoke"]


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


async def test_without_a_card_the_form_says_what_this_machine_holds_and_how_to_pick(
    tmp_path: Path,
) -> None:
    app, _ = make_app(tmp_path)
    async with app.run_test(size=(120, 30)) as pilot:
        await settle(pilot, lambda: contains(app, "this machine") and contains(app, "of 32.0 GiB"))
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
        await settle(pilot, lambda: contains(app, "of 32.0 GiB"))
        await pilot.press("r")
        await settle(pilot, lambda: len(starter.started) == 1)
