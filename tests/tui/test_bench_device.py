"""The device chart: its curves, and what a card does not tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprof.core import events as ev
from llmprof.core.figures.case_device import run_card
from llmprof.core.state.view import RunView
from llmprof.core.store.journal import replay
from llmprof.core.store.run import RunStore
from llmprof.tui.bench.device_chart import device_values, missing_reasons
from tests.builders import journals
from tests.builders.journals import reduced
from tests.tui.apps import make_app
from tests.tui.frames import contains, settle


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMPROF_HOME", str(tmp_path / "home"))


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


def test_the_card_is_found_by_uuid(tmp_path: Path) -> None:
    view = reduced(tmp_path).view()
    assert run_card(view) is view.cards[0]
